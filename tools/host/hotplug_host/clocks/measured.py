"""What results of this tool, measured on this host just now, say of its clocksources."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotplug_host.clocks.measure import CALLS_PER_SAMPLE, ORDER, SCALE
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.jsonl import parse, whole_lines
from hotplug_host.records import CLOCK_CHECK, FAILED, ITERATION, OK, RUN, SCHEMA, TIMED

#: Operations whose samples are the time of calls.
_CALLS = (f"{SCALE}/", f"{ORDER}/")
HINT = "name what --output wrote"


@dataclass(frozen=True)
class Measured:
    """One operation with one clocksource (None where the kernel does not name it), over all iterations.

    `us_per_call` is a median, None where the operation times no calls; `violations` are calls that went back,
    None without a measurement; `problem` is the first proof that the clock is wrong.
    """

    clocksource: str | None
    operation: str
    n: int
    us_per_call: float | None
    violations: int | None
    problem: str | None


@dataclass
class _Cell:
    samples: list[float] = field(default_factory=list)
    violations: int | None = None
    problem: str | None = None


def read_measured(paths: Iterable[Path]) -> tuple[Measured, ...]:
    """Read result files; ToolError (INPUT) when one is none. A last line cut short is left out."""
    cells: dict[tuple[str | None, str], _Cell] = {}
    for path in paths:
        _take(path, cells)
    return tuple(
        Measured(
            clocksource=clocksource,
            operation=operation,
            n=len(cell.samples),
            us_per_call=_us_per_call(operation, cell.samples),
            violations=cell.violations,
            problem=cell.problem,
        )
        for (clocksource, operation), cell in cells.items()
    )


def _take(path: Path, cells: dict[tuple[str | None, str], _Cell]) -> None:
    clocksources: dict[str, str | None] = {}
    for number, line in whole_lines(path, [], "a result", HINT):
        try:
            record = parse(line)
            if (record["schema"], record["tool"]) != (SCHEMA, CLOCK_CHECK):
                raise ValueError
            if record["record"] == RUN:
                clocksources[record["run_id"]] = record["detail"]["clock"]["clocksource"]
            elif record["record"] == ITERATION and record["phase"] == TIMED:
                key = (clocksources[record["run_id"]], str(record["operation"]))
                _add(cells.setdefault(key, _Cell()), record)
        except (ValueError, KeyError, TypeError):
            raise ToolError(
                f"{path}:{number}: not a {SCHEMA} record of {CLOCK_CHECK}", HINT, ExitCode.INPUT
            ) from None


def _add(cell: _Cell, record: Mapping[str, Any]) -> None:
    """Add an iteration. One that is invalid was of no clock, and one that failed is no sample."""
    status = record["status"]
    if status not in (OK, FAILED):
        return
    order = record["detail"].get(ORDER)
    if order is not None:
        cell.violations = (cell.violations or 0) + int(order["violations"])
    if status == OK:
        cell.samples.append(float(record["seconds"]))
    elif cell.problem is None:
        cell.problem = str(record["error"])


def _us_per_call(operation: str, samples: list[float]) -> float | None:
    if not samples or not operation.startswith(_CALLS):
        return None
    return statistics.median(samples) / CALLS_PER_SAMPLE * 1e6
