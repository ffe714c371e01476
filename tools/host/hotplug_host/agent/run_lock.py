"""Take a host for one run, or give it back.

The lock is one file on disk, not below /run: a run reboots the host several times and must still hold it
afterwards. It is made complete under another name and then linked into place, so that it is either absent or
whole, and so that of two runs exactly one gets it. It carries the state of the host before the run: what a
rollback has to go back to. A lease beside it tells whether the run is alive; one that ran out lets no other
run in.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from hotplug_host.errors import ToolError
from hotplug_host.holder import LOCK_KEYS, read_record
from hotplug_host.lease import LEASE, describe_held, renew

ANYBODY = "any"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the step."""
    parser.add_argument("--lock", type=Path, required=True, help="the lock file")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--acquire", type=json.loads, metavar="JSON", help="record of the run")
    action.add_argument("--release", metavar="TOKEN", help=f"token of the run that took it, or '{ANYBODY}'")


def act(arguments: argparse.Namespace) -> dict[str, Any]:
    """Take the lock, or give it back."""
    if arguments.dry_run:
        return {"changed": would_change(arguments.lock, arguments.release)}
    if arguments.acquire is not None:
        acquire(arguments.lock, arguments.acquire)
    else:
        release(arguments.lock, arguments.release)
    return {"changed": True}


def would_change(lock: Path, token: str | None) -> bool:
    """Return whether a run could take the lock, or give it back with TOKEN; ToolError when another has it.

    A lock that is gone changes nothing: in check mode, it was not taken.
    """
    holder = read_record(lock, LOCK_KEYS)
    if holder is not None and token not in (ANYBODY, holder.get("token")):
        raise held_by_another(lock, holder)
    return (holder is None) == (token is None)


def acquire(lock: Path, record: dict[str, Any]) -> None:
    """Take the lock; ToolError, naming the holder, when another run has it."""
    lock.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    draft = lock.with_name(f"{lock.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as stream:
        json.dump(record, stream)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        os.link(str(draft), str(lock))
    except FileExistsError:
        raise held_by_another(lock, read_record(lock, LOCK_KEYS) or {}) from None
    finally:
        draft.unlink()
        sync_directory(lock.parent)
    renew(lock, str(record["token"]))


def release(lock: Path, token: str) -> None:
    """Give the lock back; ToolError when it is gone or another run's."""
    holder = read_record(lock, LOCK_KEYS)
    if holder is None:
        raise ToolError(f"{lock} is gone")
    if token not in (ANYBODY, holder.get("token")):
        raise held_by_another(lock, holder)
    lock.unlink()
    lock.with_name(LEASE).unlink(missing_ok=True)
    sync_directory(lock.parent)
    if not any(lock.parent.iterdir()):
        lock.parent.rmdir()


def held_by_another(lock: Path, holder: dict[str, Any]) -> ToolError:
    """Return the fault of a host that another run has; with its token, which breaks that lock alone."""
    return ToolError(describe_held(lock, holder), answer={"token": holder.get("token")})


def sync_directory(path: Path) -> None:
    """Make a changed directory entry survive a kexec, which does not unmount."""
    descriptor = os.open(str(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
