"""Progress on standard error, results on standard output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Say = Callable[[str], None]
"""Takes one progress line, without a newline."""


class Progress:
    """Writes progress lines, each with the seconds since the command began."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def __call__(self, line: str) -> None:
        """Write one line."""
        sys.stderr.write(f"[{time.monotonic() - self._start:7.1f} s] {line}\n")
        sys.stderr.flush()


def out(text: str) -> None:
    """Write a result line to standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def once_every(seconds: float, say: Say) -> Callable[[Callable[[], str]], None]:
    """Wrap `say` so that it passes on at most one line in `seconds`, and makes no other."""
    last = time.monotonic()

    def throttled(line: Callable[[], str]) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= seconds:
            last = now
            say(line())

    return throttled
