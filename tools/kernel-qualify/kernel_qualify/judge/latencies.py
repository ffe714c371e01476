"""hackbench and cyclictest on stock and patched kernels: verdict, and the table.

Pure functions.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hotplug_common import stats
from hotplug_common.boots import Effect, compare_all
from hotplug_common.kernel.series import PATCHED, STOCK
from kernel_qualify.judge.mdtable import heading, row, slower
from kernel_qualify.judge.verdicts import Record, of_kind

COARSEST_PERCENT = 25.0
"""An interval that reaches further than this from the middle says nothing."""


@dataclass(frozen=True)
class Latency:
    """One program in one kernel; a value (in `unit`, smaller is better) for each run."""

    kernel: str
    program: str
    unit: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Run:
    """Both kernels in guests of one shape, booted in turns."""

    line: str
    arch: str
    cpus: int
    boots: int
    releases: dict[str, str]
    latencies: tuple[Latency, ...]

    def effects(self) -> list[tuple[Latency, Latency, Effect]]:
        """Each program in stock and patched, and the boots of the second held against those of the first."""
        patched = {latency.program: latency for latency in self.latencies if latency.kernel == PATCHED}
        pairs = [(latency, patched[latency.program]) for latency in self.latencies if latency.kernel == STOCK]
        return [
            (before, after, compare_all(self._boots(before), [self._boots(after)])[0])
            for before, after in pairs
        ]

    def _boots(self, latency: Latency) -> dict[str, list[float]]:
        """Return the values of each boot: all have as many runs, and the boots follow each other."""
        parts = np.array_split(np.asarray(latency.values), self.boots)
        return {f"{latency.kernel} {number}": part.tolist() for number, part in enumerate(parts)}


def latencies(kernel: str, records: Iterable[Record]) -> list[Latency]:
    """Return the records of all boots of a kernel."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in of_kind(records, "latency"):
        found.setdefault((record["program"], record["unit"]), []).append(record["value"])
    return [Latency(kernel, program, unit, tuple(values)) for (program, unit), values in found.items()]


def problems(run: Run) -> list[str]:
    """Which program is slower than on stock, and whether the runs could have told."""
    found = []
    for before, _, effect in run.effects():
        interval = effect.interval_percent
        if interval is None or (interval.high - interval.low) / 2 > COARSEST_PERCENT:
            found.append(f"{before.program}: the runs differ too much to tell anything")
        elif effect.verdict == stats.SLOWER and interval.high < 0:
            found.append(f"{before.program}: slower by {-effect.median_decrease_percent:.1f}%")
    return found


def table(runs: Sequence[Run]) -> str:
    """Return a row for each program, in Markdown."""
    head = ["guest", "program", "boots and runs of each", "stock: median (min to max)", "patched"]
    head += ["patched is slower by (95% interval)", "p"]
    lines = heading(head)
    for run in sorted(runs, key=lambda run: run.arch):
        for before, after, effect in run.effects():
            cells = [f"{run.arch}, {run.cpus} CPUs", before.program, f"{run.boots}, {len(before.values)}"]
            cells += [_spread(latency) for latency in (before, after)]
            cells += [slower(effect, 1), "" if effect.p_value is None else f"{effect.p_value:.2g}"]
            lines.append(row(cells))
    return "\n".join([*lines, ""])


def _spread(latency: Latency) -> str:
    values = latency.values
    return f"{statistics.median(values):.4g} {latency.unit} ({min(values):.4g} to {max(values):.4g})"


def load(path: Path) -> Run:
    """Read what keeping.save() wrote; KeyError or TypeError for anything else."""
    facts = json.loads(path.read_text())
    found = [Latency(**latency | {"values": tuple(latency["values"])}) for latency in facts.pop("latencies")]
    return Run(**facts, latencies=tuple(found))
