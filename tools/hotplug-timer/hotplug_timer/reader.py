"""Reading result files line by line, every line checked against the schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotplug_common.schemacheck import Schema
from hotplug_host.cpulist import parse_cpulist
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.hostinfo import UNKNOWN, HostInfo
from hotplug_host.jsonl import parse, whole_lines
from hotplug_host.records import (
    CLOCK_CHECK,
    END,
    FAMILY,
    ITERATION,
    OK,
    RUN,
    SCHEMA,
    TIMER,
    VERSION,
    Record,
)
from hotplug_timer.iterations import Iterations
from hotplug_timer.schema import CLOCK_CHECK_1, RESULT, RESULT_2
from hotplug_timer.upgrade import from_clock_check, from_timer

GIVE_RESULTS = "give result files written by hotplug-timer run"
#: What clock-check measures with.
PROBE = "clock-probe"
#: Characters of result lines that are kept as they are, for the report to embed: 12,000 iterations.
MAX_RAW = 1 << 22
#: What a clock of nanoseconds can have measured; 30 years are more than anyone waits.
MIN_SECONDS, MAX_SECONDS = 1e-9, 1e9
#: Counts and indices are below this; sums of a few stay exact as floating-point numbers.
MAX_COUNT = 1 << 50


@dataclass(frozen=True)
class _Version:
    """Which versions of a form are read, by which schema, and what makes result/3 of a record."""

    first: int
    newest: int
    schema: Schema
    upgrade: Callable[[Mapping[str, Any]], Record]


#: By the word before the slash in `schema`. The newest schema of a form accepts its earlier versions.
_VERSIONS = {
    FAMILY: _Version(VERSION, VERSION, RESULT, dict),
    TIMER: _Version(1, 2, RESULT_2, from_timer),
    CLOCK_CHECK: _Version(1, 1, CLOCK_CHECK_1, from_clock_check),
}


@dataclass(frozen=True)
class Shape:
    """The CPUs of a run: two runs compare only when these are the same."""

    machine: str
    present: str
    cores: int
    threads_per_core: int

    @property
    def cpus(self) -> int:
        """Return the CPUs that are online with SMT on."""
        return self.cores * self.threads_per_core


@dataclass(frozen=True)
class Conditions:
    """How a run measured; `prepare` and `cleanup` are commands around each switch, None without one."""

    via: str
    warmup: int
    settle_s: float
    prepare: str | None
    cleanup: str | None


@dataclass(frozen=True)
class Recording:
    """A traced transition that succeeded; `file` is the trace's name, beside the result file.

    `seconds` is how long it took with tracing; None where that was not recorded.
    """

    operation: str
    mode: str
    file: str
    seconds: float | None


@dataclass
class Run:
    """One run: a block of iterations under one boot. `outcome` is None when its end is missing.

    `online` is how many CPUs were online before it.
    `clocksource` is the one that was measured; None when none was, or the kernel did not say which.
    `first` is when the first iteration started. `states` names the kernel's hotplug states by their step.
    `busy_slowdown` and `lpar_mode` tell how CPUs share processors, in results of `measure-costs`.
    """

    source: str
    tool: str
    run_id: str
    variant: str
    started: str
    host: HostInfo
    shape: Shape
    rcu: dict[str, str]
    operations: tuple[str, ...]
    conditions: Conditions
    clocksource: str | None = None
    online: int = 0
    states: Mapping[int, str] = field(default_factory=dict)
    busy_slowdown: float | None = None
    lpar_mode: str | None = None
    recordings: list[Recording] = field(default_factory=list)
    iterations: Iterations = field(default_factory=Iterations)
    outcome: str | None = None
    finished: str | None = None
    restored: bool | None = None
    first: str | None = None

    @property
    def boot(self) -> str:
        """Return what names the boot; the run itself where the host has not recorded one."""
        return self.host.boot_id if self.boot_is_known else f"run {self.run_id}"

    @property
    def boot_is_known(self) -> bool:
        """Whether the host has recorded the boot."""
        return self.host.boot_id not in ("", UNKNOWN)


@dataclass(frozen=True)
class Dataset:
    """All runs read, in time order, and what was odd about the files.

    `raw` holds the lines themselves; None when they are more than `MAX_RAW` characters.
    """

    runs: tuple[Run, ...]
    notices: tuple[str, ...]
    raw: str | None


class _Raw:
    """The lines read, until they are too many to keep."""

    def __init__(self) -> None:
        self._lines: list[str] | None = []
        self._size = 0

    def add(self, line: str) -> None:
        self._size += len(line)
        if self._size > MAX_RAW:
            self._lines = None
        elif self._lines is not None:
            self._lines.append(line)

    def text(self) -> str | None:
        return None if self._lines is None else "".join(self._lines)


@dataclass(frozen=True)
class Line:
    """A line of a result file: where it is, its text, and the record in it as result/3."""

    where: str
    text: str
    record: Record


def checked_lines(path: Path, runs: dict[str, Run], notices: list[str]) -> Iterator[Line]:
    """Yield the lines of a result file and keep in RUNS, by id, what they say.

    ToolError (INPUT), with file and line, for a line that is none or that was read before. A last line that
    is cut short becomes a notice.
    """
    number = 0
    for number, text in whole_lines(path, notices, "a result", GIVE_RESULTS):
        where = f"{path}:{number}"
        line = Line(where, text, _record(where, text))
        _take(runs, line, path)
        yield line
    if number == 0:
        raise _input_error(f"{path}: holds no results")


def read_files(paths: Iterable[Path]) -> Dataset:
    """Read result files; ToolError (INPUT), with file and line, when one is not what it should be.

    Lines are read one at a time: what stays of an iteration is some 20 bytes.
    """
    runs: dict[str, Run] = {}
    notices: list[str] = []
    raw = _Raw()
    for path in paths:
        for line in checked_lines(path, runs, notices):
            raw.add(line.text)
    ordered = sorted(runs.values(), key=lambda run: run.started)
    return Dataset(tuple(ordered), tuple(notices), raw.text())


def _record(where: str, text: str) -> Record:
    try:
        record = parse(text)
    except ValueError:
        raise _input_error(f"{where}: not a JSON object, so not a line of a result file") from None
    kind = record.get("record")
    if kind not in (RUN, ITERATION, END):
        raise _input_error(f"{where}: not a record of a hotplug-timer result file")
    version = _version(where, kind, record.get("schema"))
    problem = version.schema.problem_of(kind, record)
    if problem is None:
        try:
            record = version.upgrade(record)
        except ValueError as error:
            problem = str(error)
        else:
            problem = _range_problem(record)
    if problem:
        raise _input_error(f"{where}: {problem}")
    return record


def _range_problem(record: Record) -> str | None:
    """Say which number of an iteration no host can have written; None when all are possible.

    The schema leaves them open, and JSON has numbers that floating point has not.
    """
    seconds = record.get("seconds")
    if seconds is not None and not MIN_SECONDS <= seconds <= MAX_SECONDS:
        return f"seconds: {_short(seconds)} is not a time that can have been measured"
    counts = record.get("detail", {}).get("counts") or {}
    numbers = {"index": record.get("index", 0), **{f"counts.{name}": value for name, value in counts.items()}}
    wrong = next((name for name, value in numbers.items() if abs(value) > MAX_COUNT), None)
    return f"{wrong}: {_short(numbers[wrong])} is more than can have been counted" if wrong else None


def _short(number: float) -> str:
    return str(number) if isinstance(number, float) or abs(number) <= MAX_COUNT else "an enormous number"


def _version(where: str, kind: str, schema: object) -> _Version:
    """Return the version of a record; ToolError (INPUT) when it is none known, or a later one."""
    if kind != RUN and schema is None:
        return _VERSIONS[TIMER]
    text = str(schema)
    named = re.fullmatch(f"({'|'.join(_VERSIONS)})/([0-9]{{1,9}})", text)
    if named is None or int(named[2]) < _VERSIONS[named[1]].first:
        raise _input_error(f"{where}: schema {text!r} is not {SCHEMA}")
    version = _VERSIONS[named[1]]
    if int(named[2]) > version.newest:
        raise ToolError(
            f"{where}: written for schema {text}, newer than {named[1]}/{version.newest}",
            "read it with the hotplug-timer version that wrote it, or a later one",
            ExitCode.INPUT,
        )
    return version


def _take(runs: dict[str, Run], line: Line, path: Path) -> None:
    record, where = line.record, line.where
    run_id, detail = record["run_id"], record.get("detail", {})
    if record["record"] == RUN:
        if run_id in runs:
            raise _input_error(
                f"{where}: run {run_id} was read already, from {runs[run_id].source}", "name it once"
            )
        runs[run_id] = _run(record, path)
        _check_copy(where, runs[run_id], runs)
        return
    run = runs.get(run_id)
    if run is None or run.source != str(path):
        raise _input_error(f"{where}: belongs to run {run_id}, whose record is not above it")
    if record["record"] == END:
        if run.outcome is not None:
            raise _input_error(f"{where}: run {run_id} has ended already", "name each run once")
        run.outcome, run.finished, run.restored = record["outcome"], record["finished"], record["restored"]
        return
    if not run.iterations:
        run.first = record["started"]
        _check_copy(where, run, runs)
    if record["status"] == OK and detail.get("cpus_after") != detail.get("cpus_expected"):
        raise _input_error(f"{where}: says ok, but cpus_after is not cpus_expected")
    if not run.iterations.append(record):
        name = f"{record['operation']} {record['phase']} iteration {record['index']}"
        raise _input_error(f"{where}: {name} of run {run_id} was read already", "give each line once")
    if record["status"] == OK and (trace := detail.get("trace")) is not None:
        run.recordings.append(Recording(record["operation"], trace["mode"], trace["file"], trace["seconds"]))


def _check_copy(where: str, run: Run, runs: Mapping[str, Run]) -> None:
    """Refuse a run that began, or whose first iteration did, when another of its boot did.

    No host measures twice at a time: it is a copy under another name, whose samples would count twice.
    """
    for other in runs.values():
        same = run.started == other.started or (run.first is not None and run.first == other.first)
        if same and other is not run and other.host == run.host:
            message = f"{where}: run {run.run_id} is a copy of run {other.run_id} in {other.source}"
            raise _input_error(f"{message}: one boot, one time", "give each run once")


def _run(record: Record, path: Path) -> Run:
    topology, settings, detail = record["topology"], record["settings"], record["detail"]
    return Run(
        source=str(path),
        tool=record["tool"],
        run_id=record["run_id"],
        variant=record["variant"],
        started=record["started"],
        host=HostInfo(**record["host"]),
        shape=Shape(
            record["host"]["machine"], topology["present"], topology["cores"], topology["threads_per_core"]
        ),
        rcu=record["rcu"],
        operations=tuple(settings["operations"]),
        conditions=Conditions(
            via=detail.get("via", PROBE),
            warmup=int(settings["warmup"]),
            settle_s=float(settings["settle_s"]),
            prepare=detail.get("prepare"),
            cleanup=detail.get("cleanup"),
        ),
        clocksource=detail.get("clock", {}).get("clocksource"),
        online=len(parse_cpulist(topology["online"])),
        states={int(step): name for step, name in (detail.get("hotplug_states") or {}).items()},
        busy_slowdown=detail.get("busy_slowdown"),
        lpar_mode=detail.get("lpar_mode"),
    )


def _input_error(message: str, hint: str = GIVE_RESULTS) -> ToolError:
    return ToolError(message, hint, ExitCode.INPUT)
