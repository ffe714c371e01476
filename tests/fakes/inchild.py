"""A forked child for tests of what would end, or blind, the tests' own process: signals, standard streams."""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
#: Seconds until a child that hangs is ended by SIGALRM.
MOST_S = 60


def in_child(work: Callable[[], Result]) -> Result:
    """Return what WORK returns in a child; AssertionError with the traceback where it raises or dies."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read_end)
            signal.setitimer(signal.ITIMER_REAL, 0)  # pytest-timeout's is of the parent
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(MOST_S)
            answer = _answer(work)
            while answer:
                answer = answer[os.write(write_end, answer) :]
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answers:
        answer = answers.read()
    _, status = os.waitpid(pid, 0)
    assert answer, f"the child ended with {os.waitstatus_to_exitcode(status)}"
    result, problem = pickle.loads(answer)  # noqa: S301 - our own child
    assert problem is None, problem
    return result  # type: ignore[no-any-return]


def _answer(work: Callable[[], Result]) -> bytes:
    try:
        return pickle.dumps((work(), None))
    except BaseException:
        return pickle.dumps((None, traceback.format_exc()))
