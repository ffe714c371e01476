"""The store: one line a run, appended and never changed."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.jsonl import MAX_LINE, parse, whole_lines
from hotplug_timer.history.entry import SCHEMA_NAME, SCHEMA_VERSION, Entry, from_record, to_line
from hotplug_timer.reader import GIVE_RESULTS
from hotplug_timer.schema import HISTORY

RUNS = "runs.jsonl"
HINT = "name the --store that hotplug-timer history add writes to"


@dataclass(frozen=True)
class Contents:
    """All runs of a store in time order, and what was odd about its file."""

    entries: tuple[Entry, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True)
class Added:
    """What was added; how many runs were there already; what was odd about the store."""

    entries: tuple[Entry, ...]
    known: int
    notices: tuple[str, ...]


def read(directory: Path) -> Contents:
    """Read a store; ToolError (INPUT) when there is none, or it is not what it should be."""
    path = directory / RUNS
    with _locked(path, os.O_RDONLY, fcntl.LOCK_SH):
        notices: list[str] = []
        entries = _read(path, notices)
    return Contents(tuple(sorted(entries, key=lambda entry: entry.time)), tuple(notices))


def add(directory: Path, entries: Sequence[Entry]) -> Added:
    """Append the runs that are not in the store yet, which is made when missing, and wait for the disk.

    Who adds at the same time waits. ToolError (INPUT) when a run is there with other figures; then nothing
    is added.
    """
    path = directory / RUNS
    _make(directory)
    with _locked(path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) as descriptor:
        notices = _cut_tail(path, descriptor)
        known = {entry.run_id: entry for entry in _read(path, notices)}
        fresh: dict[str, Entry] = {}
        for entry in entries:
            _check(entry)
            there = known.setdefault(entry.run_id, entry)
            if there is entry:
                fresh[entry.run_id] = entry
            elif there not in (entry, entry.as_version_1()):
                raise _wrong(
                    f"run {entry.run_id} of {entry.host} is in {path} with other figures",
                    "a file that has changed since it was added cannot be added again",
                )
        _append(path, descriptor, "".join(map(to_line, fresh.values())))
    return Added(tuple(fresh.values()), len(entries) - len(fresh), tuple(notices))


@contextmanager
def _locked(path: Path, flags: int, kind: int) -> Iterator[int]:
    """Hold a lock on the file of runs, which is never replaced; the kernel drops it when the process dies."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    except OSError as error:
        # What cannot be read is not what was named; what cannot be written is the machine's.
        code = ExitCode.ENVIRONMENT if isinstance(error, PermissionError) else ExitCode.INPUT
        raise ToolError(f"cannot open {path}: {error.strerror}", HINT, code) from error
    try:
        fcntl.flock(descriptor, kind)
        yield descriptor
    finally:
        os.close(descriptor)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(
            f"cannot make {directory}: {error.strerror}", "name another --store", ExitCode.ENVIRONMENT
        ) from error


def _read(path: Path, notices: list[str]) -> list[Entry]:
    """Return the runs in the file's order; what is odd about it goes to NOTICES."""
    entries: dict[str, Entry] = {}
    for number, line in whole_lines(path, notices, "a run", HINT):
        entry = _entry(f"{path}:{number}", line)
        if entry.run_id in entries:
            raise _wrong(f"{path}:{number}: run {entry.run_id} is there twice", "remove one of the two lines")
        entries[entry.run_id] = entry
    return list(entries.values())


def _entry(where: str, line: str, hint: str = HINT) -> Entry:
    """Return the entry in a line; ToolError (INPUT), with WHERE and HINT, when there is none."""
    try:
        record = parse(line)
    except ValueError:
        raise _wrong(f"{where}: not a JSON object, so not a line of a history") from None
    _check_version(where, record.get("schema"))
    problem = HISTORY.problem_of("run", record)
    if problem:
        raise _wrong(f"{where}: {problem}", hint)
    entry = from_record(record)
    try:
        entry.time  # noqa: B018 - the schema cannot say which days there are
    except ValueError:
        raise _wrong(f"{where}: started: {entry.started!r} is no time there was", hint) from None
    return entry


def _check(entry: Entry) -> None:
    """Refuse (ToolError, INPUT) an entry that is to be added when nobody could read it again."""
    line, where = to_line(entry), f"run {entry.run_id} of {entry.host}"
    if len(line) > MAX_LINE:
        raise _wrong(f"{where}: longer than {MAX_LINE} bytes", GIVE_RESULTS)
    _entry(where, line, GIVE_RESULTS)


def _check_version(where: str, schema: object) -> None:
    version = re.fullmatch(f"{SCHEMA_NAME}([0-9]{{1,9}})", str(schema))
    if version is None:
        raise _wrong(f"{where}: schema {schema!r} is not {SCHEMA_NAME}{SCHEMA_VERSION}")
    if int(version[1]) > SCHEMA_VERSION:
        raise _wrong(
            f"{where}: written for schema {schema}, newer than {SCHEMA_NAME}{SCHEMA_VERSION}",
            "use the hotplug-timer version that wrote it, or a later one",
        )


def _cut_tail(path: Path, descriptor: int) -> list[str]:
    """Remove a last line that was cut short, so that what is appended is a line of its own."""
    size = os.fstat(descriptor).st_size
    whole = _end_of_lines(descriptor, size)
    if whole == size:
        return []
    os.ftruncate(descriptor, whole)
    return [f"{path}: the last line was cut short, so it was removed; add that run again"]


def _end_of_lines(descriptor: int, size: int) -> int:
    """Return the bytes up to the last line end."""
    end = size
    while end:
        begin = max(end - 65536, 0)
        found = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def _append(path: Path, descriptor: int, text: str) -> None:
    """Append all lines or none."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    left = text.encode()
    try:
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError as error:
        os.ftruncate(descriptor, end)
        raise ToolError(
            f"cannot write to {path}: {error.strerror}", "nothing was added: make room", ExitCode.ENVIRONMENT
        ) from error


def _wrong(message: str, hint: str = HINT) -> ToolError:
    return ToolError(message, hint, ExitCode.INPUT)
