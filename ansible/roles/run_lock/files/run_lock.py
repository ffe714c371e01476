"""Take or give back this host for one A/B run, and print what came of it as JSON.

The lock is one file on disk, not below /run: a run reboots the host several times and must still hold it
afterwards. It is made complete under another name and then linked into place, so that it is either absent or
whole, and so that of two runs exactly one gets it. It carries the state of the host before the run: what a
rollback has to go back to.

Runs on the measured host, on its own Python (3.9 or newer), fed through standard input.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

ANYBODY = "any"


class LockError(Exception):
    """The lock is not in the state asked for."""


def sync_directory(path: Path) -> None:
    """Make a changed directory entry survive a kexec, which does not unmount."""
    descriptor = os.open(str(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_record(lock: Path) -> dict[str, Any]:
    """Return the record in a lock, a record of an unknown run when it is damaged."""
    try:
        record = json.loads(lock.read_text(encoding="utf-8"))
    except ValueError:
        record = None
    return record if isinstance(record, dict) else dict.fromkeys(("owner", "started", "token"), "unknown")


def describe(record: dict[str, Any]) -> str:
    """Return who holds a lock since when."""
    return f"{record.get('owner')} has been using this host since {record.get('started')}"


def acquire(lock: Path, record: dict[str, Any]) -> None:
    """Take the lock; raise LockError, naming the holder, when another run has it."""
    lock.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    draft = lock.with_name(f"{lock.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as stream:
        json.dump(record, stream)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        os.link(str(draft), str(lock))
    except FileExistsError:
        raise LockError(describe(read_record(lock))) from None
    finally:
        draft.unlink()
        sync_directory(lock.parent)


def release(lock: Path, token: str) -> None:
    """Give the lock back; raise LockError when it is gone or another run's."""
    try:
        holder = read_record(lock)
    except FileNotFoundError:
        raise LockError(f"{lock} is gone") from None
    if token not in (ANYBODY, holder.get("token")):
        raise LockError(describe(holder))
    lock.unlink()
    sync_directory(lock.parent)
    if not any(lock.parent.iterdir()):
        lock.parent.rmdir()


def main() -> int:
    """Parse the command line, act, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lock", type=Path, required=True, help="the lock file")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--acquire", type=json.loads, metavar="JSON", help="record of the run")
    action.add_argument("--release", metavar="TOKEN", help=f"token of the run that took it, or '{ANYBODY}'")
    options = parser.parse_args()
    try:
        if options.acquire is not None:
            acquire(options.lock, options.acquire)
        else:
            release(options.lock, options.release)
    except (LockError, OSError) as error:
        json.dump({"error": str(error)}, sys.stdout)
        return 1
    json.dump({"changed": True}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
