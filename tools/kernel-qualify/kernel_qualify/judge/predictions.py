"""Predictions of how long a switch takes, made on the stock kernel, held against what it took.

Pure functions.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotplug_common.kernel.series import PATCHED, STOCK, VARIANTS
from hotplug_common.tables import significant
from kernel_qualify.judge.mdtable import heading, row
from kernel_qualify.judge.verdicts import Record, of_kind

DIRECTIONS = ("off", "on")
WIDEST = 6.0
"""How many times its low end the high end of the patched kernel's range may be."""


@dataclass(frozen=True)
class Switch:
    """One direction on one kernel: the range that was predicted, and what switches took. All in seconds."""

    kernel: str
    direction: str
    low: float
    high: float
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the seconds."""
        return statistics.median(self.seconds)

    @property
    def range(self) -> str:
        """What was predicted, in words."""
        return f"{significant(self.low, 2)} to {significant(self.high, 2)}"

    @property
    def inside(self) -> bool:
        """Whether it is in the range."""
        return self.low <= self.median <= self.high


@dataclass(frozen=True)
class Run:
    """Both kernels in guests of one shape."""

    line: str
    arch: str
    cores: int
    threads: int
    releases: dict[str, str]
    switches: tuple[Switch, ...]

    @property
    def cpus(self) -> int:
        """CPUs of a guest."""
        return self.cores * self.threads

    @property
    def guest(self) -> str:
        """The guests in words."""
        return f"{self.arch}, {self.cores} x {self.threads}"


def seconds_of(records: Iterable[Record]) -> dict[str, tuple[float, ...]]:
    """Return what the switches of a guest took, by direction."""
    return {record["to"]: tuple(record["seconds"]) for record in of_kind(records, "speed")}


def switches(
    predicted: Mapping[str, Any], measured: Mapping[str, Mapping[str, Sequence[float]]]
) -> tuple[Switch, ...]:
    """Join the rows of `hotplug-timer predict --format json` with seconds by kernel and direction.

    Raises KeyError for a switch that was not predicted, as where a state holds bulk back.
    """
    names = {STOCK: predicted["kernel"], PATCHED: PATCHED}
    rows = {(line["kernel"], line["operation"]): line for line in predicted["predictions"]}
    found = []
    for kernel in VARIANTS:
        for direction in DIRECTIONS:
            line = rows[names[kernel], f"smt={direction}"]
            seconds = tuple(measured[kernel][direction])
            found.append(Switch(kernel, direction, line["low_s"], line["high_s"], seconds))
    return tuple(found)


def problems(run: Run) -> list[str]:
    """Return the medians outside of their range, and ranges of the patched kernel that are too wide."""
    found = [
        f"{one.kernel} {one.direction}: {one.median:.2g} s is not in {one.range} s"
        for one in run.switches
        if not one.inside
    ]
    wide = [one for one in run.switches if one.kernel == PATCHED and one.high > WIDEST * one.low]
    return [*found, *(f"{one.direction}: {one.range} s is too wide a range" for one in wide)]


def table(runs: Sequence[Run]) -> str:
    """Return a row for each switch, in Markdown."""
    titles = ["guest", "switch", "kernel", "predicted (s)", "measured: median s (min to max, n)", "inside"]
    lines = heading(titles)
    for run in sorted(runs, key=lambda run: (run.arch, run.cpus)):
        for one in run.switches:
            ends = f"{min(one.seconds):.3g} to {max(one.seconds):.3g}"
            took = f"{one.median:.3g} ({ends}, {len(one.seconds)})"
            inside = "yes" if one.inside else "no"
            lines.append(row([run.guest, one.direction, one.kernel, one.range, took, inside]))
    return "\n".join([*lines, ""])


def load(path: Path) -> Run:
    """Read what keeping.save() wrote; KeyError or TypeError for anything else."""
    facts = json.loads(path.read_text())
    found = tuple(Switch(**{**one, "seconds": tuple(one["seconds"])}) for one in facts["switches"])
    return Run(**{**facts, "switches": found})
