"""SIGTERM as an exception, like SIGINT, and a stretch of code that neither may cut short.

For programs that unwind at once. A run on a measured host must not be torn half way: it uses signals.py,
whose handlers never raise.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """SIGTERM or SIGHUP came; unwinds like KeyboardInterrupt so that everything is cleaned up."""


@contextmanager
def installed() -> Iterator[None]:
    """Raise Terminated on SIGTERM and SIGHUP inside the block; ones ignored on entry (nohup) stay ignored.

    Outside the main thread, where Python sets no handlers, it changes nothing.
    """
    saved = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                saved[number] = signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in saved.items():
            signal.signal(number, handler)


def _raise(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


@contextmanager
def held_back(tell: Callable[[int], None] = lambda _number: None) -> Iterator[None]:
    """Hold signals that would end the program until the block is done: cleaning up is not interrupted.

    Each is passed to TELL. Handlers, unlike a signal mask, are not inherited by a program started meanwhile.
    For the main thread.
    """
    pending: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        pending.append(number)
        tell(number)

    before = {number: signal.signal(number, note) for number in ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if pending:
            signal.raise_signal(signal.Signals(pending[0]))
