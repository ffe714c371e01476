"""The result file: JSON Lines, every line flushed to the disk before the run goes on."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.jsonl import parse, whole_lines
from hotplug_host.records import FAMILY, ITERATION, OK, RUN, SCHEMA, Record

#: What to do when the disk is full.
FULL = "what it holds is kept: make room, then continue with --resume"

ANOTHER = "name another --output; nothing was changed"
#: What a result file begins with, as `records` writes it.
BEGINNING = b'{"record":"run"'
#: Schemas of earlier versions, which `hotplug-timer convert` turns into this one.
OLDER = ("hotplug-timer/1", "hotplug-timer/2")

#: What has to be the same for a run to be continued: (name shown, path of keys in a run's record).
RESUME_KEYS = (
    ("tool", ("tool",)),
    ("variant", ("variant",)),
    ("operations", ("settings", "operations")),
    ("iterations", ("settings", "iterations")),
    ("count iterations", ("detail", "count_iterations")),
    ("warm-up", ("settings", "warmup")),
    ("settle time", ("settings", "settle_s")),
    ("--prepare", ("detail", "prepare")),
    ("--cleanup", ("detail", "cleanup")),
    ("--trace", ("detail", "traces")),
    ("driver (--via)", ("detail", "via")),
    ("boot method", ("host", "boot_method")),
    ("host", ("host", "hostname")),
    ("machine", ("host", "machine")),
    ("CPU", ("host", "cpu_model")),
    ("kernel release", ("host", "kernel_release")),
    ("kernel version", ("host", "kernel_version")),
    ("kernel command line", ("host", "cmdline")),
    ("present CPUs", ("topology", "present")),
    ("threads per core", ("topology", "threads_per_core")),
    ("RCU settings", ("rcu",)),
)


@dataclass(frozen=True)
class Previous:
    """What an output file that is to be continued holds."""

    run: Record
    #: (phase, index, operation) of every iteration that was completed.
    done: frozenset[tuple[str, int, str]]
    #: Bytes up to the end of the last whole line; what follows is a line cut short.
    whole_bytes: int


class ResultWriter:
    """Appends records to a result file; the records there stay whatever happens."""

    def __init__(self, path: Path, descriptor: int, full: str = FULL) -> None:
        self.path = path
        self._descriptor = descriptor
        self._full = full

    def append(self, record: Mapping[str, object]) -> None:
        """Append one record and wait until it is on the disk; ToolError when it does not get there."""
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        try:
            left = line
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
        except OSError as error:
            self._cut(end)
            raise ToolError(
                f"cannot write to {self.path}: {error.strerror}",
                self._full,
                ExitCode.ENVIRONMENT,
            ) from error

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _cut(self, size: int) -> None:
        # Where even this fails: readers tolerate a last line cut short, and --resume repairs it.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, size)


def create(path: Path, *, resumable: bool = True) -> ResultWriter:
    """Start a new result file; ToolError when it exists or cannot be made. RESUMABLE is for its words."""
    full = FULL if resumable else "what it holds is kept: make room, then run again with another --output"
    try:
        return ResultWriter(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644), full)
    except FileExistsError:
        hint = "continue it with --resume, or name another --output" if resumable else "name another --output"
        raise ToolError(f"{path} exists", hint, ExitCode.USAGE) from None
    except OSError as error:
        raise ToolError(
            f"cannot create {path}: {error.strerror}", "name another --output", ExitCode.ENVIRONMENT
        ) from error


def reopen(path: Path, whole_bytes: int) -> ResultWriter:
    """Open a result file to continue it, without the last line's beginning if it was cut short."""
    try:
        descriptor = os.open(path, os.O_RDWR)
        os.ftruncate(descriptor, whole_bytes)
    except OSError as error:
        raise ToolError(
            f"cannot continue {path}: {error.strerror}", "name another --output", ExitCode.ENVIRONMENT
        ) from error
    return ResultWriter(path, descriptor)


def read_previous(path: Path) -> Previous | None:
    """Read a file that is to be continued; None when it does not exist or holds no whole line.

    ToolError (INPUT) when it is not a result file of this schema.
    """
    if not path.exists():
        return None
    run: Record | None = None
    done: set[tuple[str, int, str]] = set()
    cut: list[str] = []
    whole_bytes = 0
    for number, line in whole_lines(path, cut, "a result", ANOTHER):
        try:
            record = parse(line)
            run = run or _first(path, record)
            if record.get("record") == ITERATION and record["status"] == OK:
                done.add((str(record["phase"]), int(record["index"]), str(record["operation"])))
        except (ValueError, TypeError, LookupError):
            raise _foreign(path, number) from None
        whole_bytes += len(line.encode())
    if run is None:
        with path.open("rb") as file:
            beginning = file.read(len(BEGINNING))
        if beginning and beginning != BEGINNING:
            raise _foreign(path, 1)
        return None
    return Previous(run, frozenset(done), whole_bytes)


def check_same(path: Path, previous: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """Refuse (ToolError, USAGE) to continue a file whose run differs from this one, saying in what."""
    differences = []
    for name, keys in RESUME_KEYS:
        before, now = _dig(previous, keys), _dig(current, keys)
        if before != now:
            differences.append(f"{name} was {_show(before)}, is {_show(now)}")
    if differences:
        raise ToolError(
            f"cannot continue {path}: {'; '.join(differences)}",
            "repeat the run exactly as it was, or name another --output",
            ExitCode.USAGE,
        )


def _dig(record: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    value: Any = record
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _show(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _first(path: Path, record: Record) -> Record:
    """Return the first record of a file; ToolError (INPUT) when no run of this schema begins with it."""
    schema = record.get("schema")
    known = isinstance(schema, str) and (schema in OLDER or schema.startswith(f"{FAMILY}/"))
    if record.get("record") != RUN or not known:
        raise _foreign(path, 1)
    if schema != SCHEMA:
        raise ToolError(
            f"{path}:1: written for schema {schema}, and this version of hotplug-timer writes {SCHEMA}",
            f"hotplug-timer convert {path} -o COPY makes a {SCHEMA} file to continue; nothing was changed"
            if schema in OLDER
            else "continue it with the version that began it, or name another --output; nothing was changed",
            ExitCode.INPUT,
        )
    return record


def _foreign(path: Path, number: int) -> ToolError:
    return ToolError(f"{path}:{number}: not a result of schema {SCHEMA}", ANOTHER, ExitCode.INPUT)
