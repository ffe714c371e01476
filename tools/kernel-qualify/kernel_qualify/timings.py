"""Kept runs as the CSV of timings that hotplug-timer predict reads."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from hotplug_common.timings import OPTIONAL, REQUIRED
from kernel_qualify.judge.gains import Figure, Run

VARIANTS = {"plain": "", "expedited": " expedited", "legacy": " cpuN/online"}
"""Ways of switching, by what they add to the kernel's name. With a crash kernel loaded, on costs something
that the model has no price for."""


def table(runs: Sequence[Run]) -> str:
    """All samples, smallest guest first."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, (*REQUIRED, *OPTIONAL), lineterminator="\n")
    writer.writeheader()
    for run in sorted(runs, key=lambda run: run.cpus):
        for figure in run.figures:
            if figure.mode in VARIANTS:
                writer.writerows(_lines(run, figure))
    return buffer.getvalue()


def _lines(run: Run, figure: Figure) -> Iterator[dict[str, object]]:
    # The series expedites its own grace periods, but only where CPUs go by smt/control.
    expedites = figure.mode == "expedited" or (figure.kernel == "patched" and figure.mode == "plain")
    for seconds in figure.seconds:
        yield {
            "source": "kernel-qualify speed",
            "kernel": run.releases[figure.kernel],
            "system": f"{run.arch} guest, {run.cores} x {run.threads}",
            "cpus": run.cpus,
            "toggled": run.cores * (run.threads - 1),
            "direction": figure.to,
            "variant": f"{figure.kernel}{VARIANTS[figure.mode]}",
            "seconds": seconds,
            "grace_periods": figure.grace_periods,
            "expedited": figure.grace_periods if expedites else 0,
            "rendezvous": figure.rendezvous,
            "rebuilds": figure.rebuilds,
            "emulated": "yes",
        }
