"""SIGTERM as an exception, like SIGINT, and a stretch of code that neither may cut short."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """SIGTERM or SIGHUP came; unwinds like KeyboardInterrupt so that everything is cleaned up."""


def install() -> None:
    """Turn SIGTERM and SIGHUP into Terminated."""
    signal.signal(signal.SIGTERM, _raise)
    signal.signal(signal.SIGHUP, _raise)


def _raise(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


@contextmanager
def held_back() -> Iterator[None]:
    """Hold signals that would end the program until the block is done: cleaning up is not interrupted.

    Handlers, unlike a signal mask, are not inherited by a program started meanwhile. For the main thread.
    """
    pending: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        pending.append(number)

    before = {number: signal.signal(number, note) for number in ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if pending:
            signal.raise_signal(signal.Signals(pending[0]))
