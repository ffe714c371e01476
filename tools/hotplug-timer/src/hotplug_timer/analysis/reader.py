"""Reading result files, every line checked against the schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from hotplug_timer.errors import ExitCode, ToolError

SCHEMA_PREFIX = "hotplug-timer/"
SCHEMA_VERSION = 1
Record = dict[str, Any]


@dataclass(frozen=True)
class Iteration:
    """One transition. `seconds` is None unless it was timed and came to its end."""

    index: int
    operation: str
    phase: str
    status: str
    seconds: float | None
    path: str | None
    driver: str
    started: str
    error: str | None
    counts: dict[str, int] | None


@dataclass(frozen=True)
class Host:
    """The host and kernel of a run."""

    hostname: str
    machine: str
    kernel_release: str
    kernel_version: str
    boot_id: str
    cmdline: str
    boot_method: str
    emulated: bool
    cpu_model: str


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


@dataclass
class Run:
    """One run: a block of iterations under one boot. `outcome` is None when its end is missing."""

    source: str
    run_id: str
    label: str
    started: str
    host: Host
    shape: Shape
    rcu: dict[str, str]
    operations: tuple[str, ...]
    iterations: list[Iteration] = field(default_factory=list)
    outcome: str | None = None
    finished: str | None = None
    smt_restored: bool | None = None


@dataclass(frozen=True)
class Dataset:
    """All runs read, in time order, what was odd about the files, and the lines themselves."""

    runs: tuple[Run, ...]
    notices: tuple[str, ...]
    raw: str


@cache
def validator(kind: str) -> Draft202012Validator:
    """Return the validator for one kind of record ("run", "iteration", "end")."""
    text = files("hotplug_timer.schema").joinpath("result-v1.schema.json").read_text("utf-8")
    schema = json.loads(text)
    return Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]})


def read_files(paths: Iterable[Path]) -> Dataset:
    """Read result files; ToolError (INPUT), with file and line, when one is not what it should be."""
    runs: dict[str, Run] = {}
    notices: list[str] = []
    raw: list[str] = []
    for path in paths:
        for number, line in _whole_lines(path, notices):
            _take(runs, _record(f"{path}:{number}", line), path, f"{path}:{number}")
            raw.append(line)
    ordered = sorted(runs.values(), key=lambda run: run.started)
    return Dataset(tuple(ordered), tuple(notices), "".join(f"{line}\n" for line in raw))


def _whole_lines(path: Path, notices: list[str]) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise _input_error(f"cannot read {path}: {reason}") from error
    lines = text.split("\n")
    if lines[-1]:
        notices.append(f"{path}:{len(lines)}: the last line is cut short and was left out")
    if len(lines) == 1:
        raise _input_error(f"{path}: holds no results")
    yield from enumerate(lines[:-1], start=1)


def _record(where: str, line: str) -> Record:
    try:
        record = json.loads(line, parse_constant=_refuse_constant)
    except ValueError:
        raise _input_error(f"{where}: not a JSON object, so not a line of a result file") from None
    kind = record.get("record") if isinstance(record, dict) else None
    if kind not in ("run", "iteration", "end"):
        raise _input_error(f"{where}: not a record of a hotplug-timer result file")
    if kind == "run":
        _check_version(where, record.get("schema"))
    problem = next(
        iter(sorted(validator(kind).iter_errors(record), key=lambda e: list(map(str, e.path)))), None
    )
    if problem is not None:
        name = ".".join(map(str, problem.absolute_path)) or kind
        raise _input_error(f"{where}: {name}: {problem.message}")
    return dict(record)


def _check_version(where: str, schema: object) -> None:
    text = str(schema)
    version = text.removeprefix(SCHEMA_PREFIX)
    if text == version or not version.isdigit():
        raise _input_error(f"{where}: schema {text!r} is not {SCHEMA_PREFIX}{SCHEMA_VERSION}")
    if int(version) > SCHEMA_VERSION:
        raise ToolError(
            f"{where}: written for schema {text}, newer than {SCHEMA_PREFIX}{SCHEMA_VERSION}",
            "read it with the hotplug-timer version that wrote it, or a later one",
            ExitCode.INPUT,
        )


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
        run.iterations.append(Iteration(**{name: record[name] for name in Iteration.__dataclass_fields__}))
    else:
        run.outcome, run.finished = record["outcome"], record["finished"]
        run.smt_restored = record["smt_restored"]


def _run(record: Record, path: Path) -> Run:
    topology = record["topology"]
    return Run(
        source=str(path),
        run_id=record["run_id"],
        label=record["label"],
        started=record["started"],
        host=Host(**record["host"]),
        shape=Shape(
            record["host"]["machine"], topology["present"], topology["cores"], topology["threads_per_core"]
        ),
        rcu=record["rcu"],
        operations=tuple(record["settings"]["operations"]),
    )


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _input_error(message: str, hint: str = "give result files written by hotplug-timer run") -> ToolError:
    return ToolError(message, hint, ExitCode.INPUT)
