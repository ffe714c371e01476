"""Progress on stderr: one line rewritten in place on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import io
import os
import select
import time
from collections.abc import Callable
from typing import TextIO

from hotplug_host.errors import ToolError

#: A log gets a line about a switch in progress this often; a terminal at every tick.
PLAIN_INTERVAL_S = 30.0
CLEAR = "\r\x1b[K"


class Progress:
    """Tells how far a switch and the run are, what the last switch took and when the run will be done.

    COUNT_ONLINE reads how many CPUs are online; it is called when a line is printed, no more, and so is
    ON_LINE. A terminal that is gone (the connection it was on) keeps nothing from going on.
    """

    def __init__(
        self,
        total: int,
        stream: TextIO,
        count_online: Callable[[], int] | None = None,
        program: str = "hotplug-timer",
        on_line: Callable[[], None] = lambda: None,
    ) -> None:
        self._total = total
        self._stream = stream
        self._program = program
        self._on_line = on_line
        self._tty = stream.isatty()
        self._count_online = count_online
        self._done = 0
        self._started = time.monotonic()
        self._what = ""
        self._wanted = 0
        self._next_plain = PLAIN_INTERVAL_S

    def expect(self, total: int) -> None:
        """Start over with so many switches to do."""
        self._total, self._done, self._started = total, 0, time.monotonic()

    def begin(self, what: str, wanted: int) -> None:
        """Say which switch `tick` is about, and how many CPUs it has to leave online."""
        self._what, self._wanted = what, wanted
        self._next_plain = PLAIN_INTERVAL_S

    def tick(self, elapsed: float) -> None:
        """Report the switch in progress, ELAPSED seconds after its start.

        Never waits for a reader that is slow, or a terminal that was stopped: a switch is being timed.
        """
        if self._count_online is None or not (self._tty or elapsed >= self._next_plain):
            return
        if not _is_writable(self._stream):
            return
        self._next_plain = elapsed + PLAIN_INTERVAL_S
        with contextlib.suppress(ToolError):  # a switch is under way, which this must not break off
            online = self._count_online()
            self._line(
                f"[{self._done + 1}/{self._total}] {self._what}: {online} CPUs online,"
                f" {self._wanted} wanted, {format_duration(elapsed)} so far, {self._to_go(elapsed)}",
                final=False,
            )

    def step(self, what: str, seconds: float | None) -> None:
        """Report one finished switch; SECONDS is None when it was not timed."""
        took = "counted" if seconds is None else f"{seconds:.3f} s"
        self.finish(what, took)

    def finish(self, what: str, outcome: str) -> None:
        """Report one switch that is over, and what came of it."""
        self._done += 1
        self._line(
            f"[{self._done}/{self._total}] {what}: {outcome}, {self._to_go(0.0)}",
            final=self._done == self._total,
        )

    def note(self, text: str) -> None:
        """Print a line of its own."""
        clear = CLEAR if self._tty else ""
        self._write(f"{clear}{self._program}: {text}\n")

    def _to_go(self, elapsed: float) -> str:
        if not self._done:
            return "time to go not known yet"
        each = (time.monotonic() - self._started - elapsed) / self._done
        return f"{format_duration(max(each * (self._total - self._done) - elapsed, 0.0))} to go"

    def _line(self, text: str, *, final: bool) -> None:
        self._on_line()
        if self._tty:
            self._write(f"{CLEAR}{text[: _width(self._stream)]}" + ("\n" if final else ""))
        else:
            self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def format_duration(seconds: float) -> str:
    """Return seconds as "8 s", "3 min 20 s" or "2 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _is_writable(stream: TextIO) -> bool:
    """Whether a line can be written without waiting."""
    with contextlib.suppress(io.UnsupportedOperation, AttributeError):
        return bool(select.select([], [stream.fileno()], [], 0)[1])
    return True


def _width(stream: TextIO) -> int:
    """Return how much fits on the terminal's line: a line that wraps is not rewritten in place."""
    with contextlib.suppress(OSError, AttributeError):  # io.UnsupportedOperation is an OSError
        return max(os.get_terminal_size(stream.fileno()).columns - 1, 20)
    return 200
