"""Switch the clocksource of a host, or put back the one before.

What was there before is noted in a record, written before anything is switched: a later run finds it, also
when the run that switched is gone. No boot keeps a clocksource: a record of another boot is void.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable

from hotplug_host.arguments import add_sysroot
from hotplug_host.clocksource import AVAILABLE, CURRENT, PURPOSE
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.guardian import lock_settings
from hotplug_host.holder import write_record
from hotplug_host.sysfs import BOOT_ID, Sysfs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the step."""
    parser.add_argument("--record", type=Path, required=True, help="the file of the record")
    parser.add_argument("--owner", default="unknown", help="who applies it, for the record")
    parser.add_argument("--settle", type=float, default=0.0, help="seconds that it has to be used at least")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--apply", metavar="NAME", help="the clocksource to switch to")
    action.add_argument("--restore", action="store_true", help="put back the one before")
    add_sysroot(parser)


def act(arguments: argparse.Namespace) -> dict[str, Any]:
    """Switch, or put back; ToolError, with the clocksource as it was found, when that fails."""
    host = Host(Sysfs(arguments.sysroot), arguments.record)
    found = host.current()
    with lock_settings(host.fs, PURPOSE):
        wanted = former(host) if arguments.restore else checked(host, arguments.apply)
        if not arguments.dry_run and arguments.restore:
            restore(host, wanted)
        elif not arguments.dry_run:
            apply(host, wanted, arguments.owner, arguments.settle)
    return {"changed": wanted != found, "before": found, "now": wanted}


@dataclass(frozen=True)
class Record:
    """A clocksource that was applied, over the one before, under which boot, and by whom."""

    before: str
    applied: str
    boot_id: str
    owner: str


class Host:
    """The clocksource of a host, and the file of the record."""

    def __init__(self, fs: Sysfs, record: Path) -> None:
        self.fs = fs
        self._record = record

    def current(self) -> str:
        """Return the clocksource in use."""
        return self.fs.read(CURRENT)

    def available(self) -> list[str]:
        """Return those there are."""
        return self.fs.read(AVAILABLE).split()

    def boot_id(self) -> str:
        """Return which boot this is."""
        return self.fs.read(BOOT_ID)

    def record(self) -> Record | None:
        """Return the record of this boot; one of another boot is void, as is a damaged one."""
        try:
            found = Record(**json.loads(self._record.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return found if found.boot_id == self.boot_id() else None

    def keep(self, record: Record | None) -> None:
        """Put a record in the place of the one there is, or remove it, and its directory if that is empty."""
        directory = self._record.parent
        if record is None:
            with contextlib.suppress(FileNotFoundError):
                self._record.unlink()
            if directory.is_dir() and not any(directory.iterdir()):
                directory.rmdir()
            return
        write_record(self._record, asdict(record))

    def write(self, name: str) -> None:
        """Write a clocksource, and check that it is used now; ToolError when it is not."""
        self.fs.write(CURRENT, name)
        if self.current() != name:
            raise ToolError(
                f"{self.fs.path(CURRENT)} says {self.current()} after {name} was written to it",
                code=ExitCode.OPERATION,
            )


def checked(host: Host, wanted: str) -> str:
    """Return WANTED; ToolError when the kernel does not have it now."""
    if wanted not in host.available():
        there = ", ".join(host.available())
        raise ToolError(f"this kernel has no clocksource {wanted} now, it has {there}")
    return wanted


def former(host: Host) -> str:
    """Return the clocksource to put back: the one in use, where none was applied.

    ToolError when another program, or the kernel, has switched since, or when it is gone.
    """
    found, record = host.current(), host.record()
    if record is None or found == record.before:
        return found
    if found != record.applied:
        raise ToolError(
            f"{host.fs.path(CURRENT)} says {found}, not the {record.applied} that was applied: somebody else,"
            f" or the kernel, changed it, so it was left alone (before, it said {record.before})"
        )
    return checked(host, record.before)


def apply(
    host: Host, wanted: str, owner: str, settle_s: float, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Switch to WANTED, and see that it is still used after so many seconds.

    ToolError, with clocksource and record as they were found, when it is not.
    """
    found, record = host.current(), host.record()
    # The record of one that another program has switched away from meanwhile is void.
    before = record.before if record and record.applied == found else found
    if wanted != found:
        host.keep(Record(before, wanted, host.boot_id(), owner))
        try:
            host.write(wanted)
            sleep(settle_s)
            if host.current() != wanted:
                raise ToolError(
                    f"the kernel left {wanted} for {host.current()} within {settle_s:g} s",
                    code=ExitCode.OPERATION,
                )
        except (ToolError, OSError):
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
