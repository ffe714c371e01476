"""Locks between runs of this tool; the kernel drops them when a process dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hotplug_common.ui import Say


@contextmanager
def held(path: Path, say: Say, what: str) -> Iterator[None]:
    """Hold the lock file at `path`; say so once when another run has it, then wait.

    The file stays: removing it would let two runs lock two different files.
    """
    with _opened(path) as fd:
        if not _take(fd):
            say(f"waiting: another run is using {what}")
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield


@contextmanager
def held_if_free(path: Path) -> Iterator[bool]:
    """Hold the lock file at `path` unless another run has it; yields whether it was free."""
    with _opened(path) as fd:
        yield _take(fd)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _take(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
