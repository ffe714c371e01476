"""Turning SIGINT, SIGTERM and SIGHUP into a request that the run looks at between and during switches."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from hotplug_host.errors import ExitCode

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """Remembers the signals received. Handlers never raise, so nothing is torn half way."""

    def __init__(self) -> None:
        self.count = 0
        self.first: signal.Signals | None = None
        #: Told, outside the handler, that a switch in progress is being waited for.
        self.on_waiting: Callable[[], None] | None = None
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)

    @property
    def requested(self) -> bool:
        """Whether the run should end."""
        return self.count > 0

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code for the first signal: 130 for SIGINT, 143 for the others."""
        return ExitCode.INTERRUPTED if self.first == signal.SIGINT else ExitCode.TERMINATED

    def fileno(self) -> int:
        """Return a descriptor that becomes readable on a signal."""
        return self._read_end

    def announce_waiting(self) -> None:
        """Say once that a switch in progress is being waited for."""
        callback, self.on_waiting = self.on_waiting, None
        if callback is not None:
            callback()

    def drain(self) -> None:
        """Make the descriptor unreadable until the next signal."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_end, 64):
                pass

    def sleep(self, seconds: float) -> None:
        """Sleep, but return at once when a stop is or gets requested."""
        deadline = time.monotonic() + seconds
        while not self.requested and (left := deadline - time.monotonic()) > 0:
            select.select([self._read_end], [], [], left)

    @contextmanager
    def installed(self) -> Iterator[StopRequest]:
        """Catch the signals inside the block; ones ignored on entry (nohup) stay ignored."""
        saved = {}
        for signum in SIGNALS:
            if signal.getsignal(signum) != signal.SIG_IGN:
                saved[signum] = signal.signal(signum, self._on_signal)
        try:
            yield self
        finally:
            for signum, handler in saved.items():
                signal.signal(signum, handler)

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self._read_end)
        os.close(self._write_end)

    def _on_signal(self, signum: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.first is None:
            self.first = signal.Signals(signum)
        with contextlib.suppress(BlockingIOError):  # when full it is readable already
            os.write(self._write_end, b"\0")
