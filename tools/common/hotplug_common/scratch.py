"""Temporary folders that a killed run cannot leave behind for good, and atomic publication from them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hotplug_common import process
from hotplug_host.errors import ExitCode, ToolError


@contextmanager
def folder(root: Path, purpose: str) -> Iterator[Path]:
    """Give a fresh folder below `root`, removed on the way out, whatever happened inside.

    Its name carries the owner's pid and start time, so that a later run can sweep it when
    this one was killed.
    """
    root.mkdir(parents=True, exist_ok=True)
    sweep(root)
    me = process.identify_self()
    path = Path(tempfile.mkdtemp(prefix=f"{purpose}.{me.pid}.{me.start_ticks}.", dir=root))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def sweep(root: Path) -> list[Path]:
    """Remove folders whose owner is gone; return what was removed."""
    removed = []
    for path in root.iterdir():
        parts = path.name.split(".")
        if len(parts) < 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
            continue
        if not process.is_alive(process.Identity(int(parts[1]), int(parts[2]))):
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


def publish(finished: Path, target: Path) -> None:
    """Move the finished file or folder to `target` in one step; a folder already there wins.

    `target` is either absent or complete for anyone who looks. Both must be on one file system.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if finished.is_dir() and target.exists():
        return
    finished.rename(target)


def need_space(path: Path, gigabytes: float, purpose: str) -> None:
    """Raise ToolError (ENVIRONMENT) when fewer than `gigabytes` are free where `path` will be."""
    existing = path
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free / 1e9
    if free < gigabytes:
        raise ToolError(
            f"{purpose} needs {gigabytes:g} GB in {path}, {free:.1f} GB are free",
            "free some space or move the cache with XDG_CACHE_HOME",
            ExitCode.ENVIRONMENT,
        )
