"""Reading result files line by line, every line checked against the schema."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotplug_common.jsonl import parse, whole_lines
from hotplug_common.schemacheck import problem_of
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.hostinfo import HostInfo
from hotplug_timer import clockrecords
from hotplug_timer.iterations import Iterations

FAMILY = "hotplug-timer"
GIVE_RESULTS = "give result files written by hotplug-timer run"
#: The newest one read. Each has all that the one before it has, so the newest schema accepts them all.
SCHEMA_VERSION = 2
#: Characters of result lines that are kept as they are, for the report to embed: 12,000 iterations.
MAX_RAW = 1 << 22
#: What a clock of nanoseconds can have measured; 30 years are more than anyone waits.
MIN_SECONDS, MAX_SECONDS = 1e-9, 1e9
#: Counts and indices are below this; sums of a few stay exact as floating-point numbers.
MAX_COUNT = 1 << 50
Record = dict[str, Any]


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
    """A traced transition that succeeded; `file` is the trace's name, beside the result file."""

    operation: str
    mode: str
    file: str


@dataclass
class Run:
    """One run: a block of iterations under one boot. `outcome` is None when its end is missing.

    `clocksource` is the one that was measured; None when none was, or the kernel did not say which.
    """

    source: str
    run_id: str
    label: str
    started: str
    host: HostInfo
    shape: Shape
    rcu: dict[str, str]
    operations: tuple[str, ...]
    conditions: Conditions
    clocksource: str | None = None
    recordings: list[Recording] = field(default_factory=list)
    iterations: Iterations = field(default_factory=Iterations)
    outcome: str | None = None
    finished: str | None = None
    smt_restored: bool | None = None


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


def read_files(paths: Iterable[Path]) -> Dataset:
    """Read result files; ToolError (INPUT), with file and line, when one is not what it should be.

    Lines are read one at a time: what stays of an iteration is some 20 bytes.
    """
    runs: dict[str, Run] = {}
    notices: list[str] = []
    raw = _Raw()
    for path in paths:
        number = 0
        for number, line in whole_lines(path, notices, "a result", GIVE_RESULTS):
            _take(runs, _record(f"{path}:{number}", line), path, f"{path}:{number}")
            raw.add(line)
        if number == 0:
            raise _input_error(f"{path}: holds no results")
    ordered = sorted(runs.values(), key=lambda run: run.started)
    return Dataset(tuple(ordered), tuple(notices), raw.text())


def _record(where: str, line: str) -> Record:
    try:
        record = parse(line)
    except ValueError:
        raise _input_error(f"{where}: not a JSON object, so not a line of a result file") from None
    kind = record.get("record") if isinstance(record, dict) else None
    if kind not in ("run", "iteration", "end"):
        raise _input_error(f"{where}: not a record of a hotplug-timer result file")
    family = _family(where, kind, record.get("schema"))
    problem = problem_of(kind, record, family) or _range_problem(record)
    if problem:
        raise _input_error(f"{where}: {problem}")
    return clockrecords.translated(record) if family == clockrecords.FAMILY else dict(record)


def _range_problem(record: Record) -> str | None:
    """Say which number of an iteration no host can have written; None when all are possible.

    The schema leaves them open, and JSON has numbers that floating point has not.
    """
    seconds = record.get("seconds")
    if seconds is not None and not MIN_SECONDS <= seconds <= MAX_SECONDS:
        return f"seconds: {_short(seconds)} is not a time that can have been measured"
    counts = record.get("counts") or {}
    numbers = {"index": record.get("index", 0), **{f"counts.{name}": value for name, value in counts.items()}}
    wrong = next((name for name, value in numbers.items() if abs(value) > MAX_COUNT), None)
    return f"{wrong}: {_short(numbers[wrong])} is more than can have been counted" if wrong else None


def _short(number: float) -> str:
    return str(number) if isinstance(number, float) or abs(number) <= MAX_COUNT else "an enormous number"


def _family(where: str, kind: str, schema: object) -> str:
    """Return who wrote a record; ToolError (INPUT) when it was nobody known, or a later version."""
    if kind != "run" and schema is None:
        return FAMILY
    text = str(schema)
    version = re.fullmatch(f"({FAMILY}|{clockrecords.FAMILY})/([0-9]{{1,9}})", text)
    if version is None:
        raise _input_error(f"{where}: schema {text!r} is not {FAMILY}/{SCHEMA_VERSION}")
    newest = SCHEMA_VERSION if version[1] == FAMILY else clockrecords.VERSION
    if int(version[2]) > newest:
        raise ToolError(
            f"{where}: written for schema {text}, newer than {version[1]}/{newest}",
            "read it with the hotplug-timer version that wrote it, or a later one",
            ExitCode.INPUT,
        )
    return version[1]


def _take(runs: dict[str, Run], record: Record, path: Path, where: str) -> None:
    run_id = record["run_id"]
    if record["record"] == "run":
        if run_id in runs:
            raise _input_error(
                f"{where}: run {run_id} was read already, from {runs[run_id].source}", "name it once"
            )
        runs[run_id] = _run(record, path)
        return
    run = runs.get(run_id)
    if run is None or run.source != str(path):
        raise _input_error(f"{where}: belongs to run {run_id}, whose record is not above it")
    if record["record"] == "iteration":
        if record["status"] == "ok" and record["cpus_after"] != record["cpus_expected"]:
            raise _input_error(f"{where}: says ok, but cpus_after is not cpus_expected")
        run.iterations.append(record)
        if record["status"] == "ok" and (trace := record.get("trace")) is not None:
            run.recordings.append(Recording(record["operation"], trace["mode"], trace["file"]))
    else:
        run.outcome, run.finished = record["outcome"], record["finished"]
        run.smt_restored = record["smt_restored"]


def _run(record: Record, path: Path) -> Run:
    topology, settings = record["topology"], record["settings"]
    return Run(
        source=str(path),
        run_id=record["run_id"],
        label=record["label"],
        started=record["started"],
        host=HostInfo(**record["host"]),
        shape=Shape(
            record["host"]["machine"], topology["present"], topology["cores"], topology["threads_per_core"]
        ),
        rcu=record["rcu"],
        operations=tuple(settings["operations"]),
        conditions=Conditions(
            via=settings["via"],
            warmup=int(settings["warmup"]),
            settle_s=float(settings["settle_s"]),
            prepare=settings.get("prepare"),
            cleanup=settings.get("cleanup"),
        ),
        clocksource=record.get("clock", {}).get("clocksource"),
    )


def _input_error(message: str, hint: str = GIVE_RESULTS) -> ToolError:
    return ToolError(message, hint, ExitCode.INPUT)
