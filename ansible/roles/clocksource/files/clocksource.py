"""Switch the clocksource of this host, or put back the one before, and print what came of it as JSON.

What was there before is noted in a record, written before anything is switched: whoever is to put it back
finds it, also when whoever switched is gone. No boot keeps a clocksource: a record of another boot is void.

Runs on the host, on its own Python (3.9 or newer), fed through standard input. Exit code 0 means that the
clocksource is the one asked for; otherwise it is as it was found, and "error" says why.
"""

import argparse
import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional


class SwitchError(Exception):
    """The clocksource is not the one asked for."""


@dataclass(frozen=True)
class Record:
    """A clocksource that was applied, over the one before, under which boot, and by whom."""

    before: str
    applied: str
    boot_id: str
    owner: str


class Host:
    """The clocksource of a host below SYSROOT, and the file of the record."""

    def __init__(self, sysroot: Path, record: Path) -> None:
        directory = sysroot / "sys/devices/system/clocksource/clocksource0"
        self.file = directory / "current_clocksource"
        self._available = directory / "available_clocksource"
        self._boot_id = sysroot / "proc/sys/kernel/random/boot_id"
        self._record = record

    def current(self) -> str:
        """Return the clocksource in use."""
        return self.file.read_text(encoding="utf-8").strip()

    def available(self) -> list[str]:
        """Return those there are."""
        return self._available.read_text(encoding="utf-8").split()

    def boot_id(self) -> str:
        """Return which boot this is."""
        return self._boot_id.read_text(encoding="utf-8").strip()

    def record(self) -> Optional[Record]:
        """Return the record of this boot; one of another boot is void, as is a damaged one."""
        try:
            found = Record(**json.loads(self._record.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return found if found.boot_id == self.boot_id() else None

    def keep(self, record: Optional[Record]) -> None:
        """Put a record in the place of the one there is, or remove it, and its directory if that is empty."""
        directory = self._record.parent
        if record is None:
            with contextlib.suppress(FileNotFoundError):
                self._record.unlink()
            if directory.is_dir() and not any(directory.iterdir()):
                directory.rmdir()
            return
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        draft = self._record.with_name(f"{self._record.name}.{os.getpid()}")
        draft.write_text(json.dumps(asdict(record)), encoding="utf-8")
        draft.replace(self._record)

    def write(self, name: str) -> None:
        """Write a clocksource, and check that it is used now; SwitchError when it is not."""
        self.file.write_text(name, encoding="utf-8")
        if self.current() != name:
            raise SwitchError(f"{self.file} says {self.current()} after {name} was written to it")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep others from switching inside the block, by the lock that clock-check takes to do so."""
        with self.file.open(encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SwitchError("clock-check --clocksource is at work, wait until it is done") from None
            yield


def checked(host: Host, wanted: str) -> str:
    """Return WANTED; SwitchError when the kernel does not have it now."""
    if wanted not in host.available():
        there = ", ".join(host.available())
        raise SwitchError(f"this kernel has no clocksource {wanted} now, it has {there}")
    return wanted


def former(host: Host) -> str:
    """Return the clocksource to put back: the one in use, where none was applied.

    SwitchError when somebody else has switched since, or when it is gone.
    """
    found, record = host.current(), host.record()
    if record is None or found == record.before:
        return found
    if found != record.applied:
        raise SwitchError(
            f"{host.file} says {found}, not the {record.applied} that was applied: somebody else, or the"
            f" kernel, changed it, so it was left alone (before, it said {record.before})"
        )
    return checked(host, record.before)


def apply(host: Host, wanted: str, owner: str, settle_s: float) -> None:
    """Switch to WANTED, and see that it is still used after so many seconds.

    SwitchError, with clocksource and record as they were found, when it is not.
    """
    found, record = host.current(), host.record()
    # The record of one that somebody else has switched away from meanwhile says nothing any more.
    before = record.before if record and record.applied == found else found
    if wanted != found:
        host.keep(Record(before, wanted, host.boot_id(), owner))
        try:
            host.write(wanted)
            time.sleep(settle_s)
            if host.current() != wanted:
                raise SwitchError(f"the kernel left {wanted} for {host.current()} within {settle_s:g} s")
        except (SwitchError, OSError):
            # Also where it was not taken: the kernel keeps in mind what it was asked for.
            host.write(found)
            host.keep(record)
            raise
    if wanted == before:
        host.keep(None)


def restore(host: Host, wanted: str) -> None:
    """Put back WANTED, and forget what was applied."""
    if host.current() != wanted:
        host.write(wanted)
    host.keep(None)


def main() -> int:
    """Parse the command line, act, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sysroot", type=Path, default=Path("/"), help="directory with proc/ and sys/")
    parser.add_argument("--record", type=Path, required=True, help="the file of the record")
    parser.add_argument("--owner", default="unknown", help="who applies it, for the record")
    parser.add_argument("--settle", type=float, default=0.0, help="seconds that it has to be used at least")
    parser.add_argument("--dry-run", action="store_true", help="only say whether it would be switched")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--apply", metavar="NAME", help="the clocksource to switch to")
    action.add_argument("--restore", action="store_true", help="put back the one before")
    options = parser.parse_args()
    host = Host(options.sysroot, options.record)
    try:
        with host.held():
            found = host.current()
            wanted = former(host) if options.restore else checked(host, options.apply)
            if not options.dry_run and options.restore:
                restore(host, wanted)
            elif not options.dry_run:
                apply(host, wanted, options.owner, options.settle)
    except SwitchError as error:
        json.dump({"error": str(error)}, sys.stdout)
        return 1
    except OSError as error:
        json.dump({"error": f"{error.filename}: {error.strerror}"}, sys.stdout)
        return 1
    json.dump({"changed": wanted != found, "before": found, "now": wanted}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
