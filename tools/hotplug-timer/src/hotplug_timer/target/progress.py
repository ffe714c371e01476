"""Progress on stderr: one line rewritten in place on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TextIO


class Progress:
    """Tells which iteration is running, what the last one took and when the run will be done."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total = total
        self._stream = stream
        self._tty = stream.isatty()
        self._done = 0
        self._started = time.monotonic()

    def step(self, what: str, seconds: float | None) -> None:
        """Report one finished switch; SECONDS is None when it was not timed."""
        self._done += 1
        took = "counted" if seconds is None else f"{seconds:.3f} s"
        left = (time.monotonic() - self._started) / self._done * (self._total - self._done)
        text = f"[{self._done}/{self._total}] {what}: {took}, {format_duration(left)} to go"
        if self._tty:
            end = "\n" if self._done == self._total else ""
            self._stream.write(f"\r\x1b[K{text}{end}")
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def note(self, text: str) -> None:
        """Print a line of its own."""
        clear = "\r\x1b[K" if self._tty else ""
        self._stream.write(f"{clear}{text}\n")
        self._stream.flush()


def format_duration(seconds: float) -> str:
    """Return seconds as "8 s", "3 min 20 s" or "2 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
