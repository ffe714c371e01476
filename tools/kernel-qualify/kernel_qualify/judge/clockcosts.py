"""What reading a clock costs in guests: medians of all boots, ratios, targets, and the table.

Pure functions.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotplug_common.kernel.series import PATCHED, STOCK
from kernel_qualify.judge.mdtable import heading, row
from kernel_qualify.judge.verdicts import Record, of_kind

UNCOMBINED = "hpet-not-combined"
"""The experiment in which every CPU reads the HPET for itself."""
KERNELS = (STOCK, UNCOMBINED, PATCHED)
HPET = "hpet"
ACPI_PM = "acpi_pm"
CLOCKSOURCES = (HPET, ACPI_PM)
OVERCOMMITTED_GAIN = 3.0
"""HPET with four vCPUs on each host CPU and a thread on each vCPU: so many times faster at least."""
WORST_WITHOUT = 1.1
"""HPET with as many vCPUs as host CPUs: so many times what it took before, at the most."""
KNOWN_TO_PPM = 100.0
"""A rate that is known less well says too little of a clock that is to keep within 500."""


@dataclass(frozen=True)
class Cost:
    """What a call took a thread (us), in one kernel, with one clocksource and number of threads."""

    kernel: str
    clocksource: str
    threads: int
    us: tuple[float, ...]

    @property
    def median(self) -> float:
        """In us."""
        return statistics.median(self.us)


@dataclass(frozen=True)
class Run:
    """All kernels in guests of one shape, booted in turns."""

    line: str
    vcpus: int
    host_cpus: int
    boots: int
    releases: dict[str, str]
    costs: tuple[Cost, ...]

    @property
    def per_host_cpu(self) -> float:
        """VCPUs on each host CPU."""
        return self.vcpus / self.host_cpus

    def cost(self, kernel: str, clocksource: str, threads: int) -> Cost | None:
        """Return what there is of it."""
        wanted = (kernel, clocksource, threads)
        found = [cost for cost in self.costs if (cost.kernel, cost.clocksource, cost.threads) == wanted]
        return found[0] if found else None

    def ratio(self, clocksource: str, threads: int) -> float | None:
        """Return what a call took before, to what it takes now: above 1 is a gain."""
        before, after = (self.cost(kernel, clocksource, threads) for kernel in (STOCK, PATCHED))
        return before.median / after.median if before and after else None

    @property
    def threads(self) -> list[int]:
        """The numbers of threads, ascending."""
        return sorted({cost.threads for cost in self.costs})


def costs(kernel: str, records: Iterable[Record]) -> list[Cost]:
    """Return the records of all boots of a kernel, one cost for each clocksource and number of threads."""
    samples: dict[tuple[str, int], list[float]] = {}
    for record in of_kind(records, "clock"):
        samples.setdefault((record["clocksource"], record["threads"]), []).append(record["us"])
    return [Cost(kernel, name, threads, tuple(us)) for (name, threads), us in samples.items()]


def problems(run: Run) -> list[str]:
    """Which targets of the HPET were missed."""
    found = []
    ratios = {threads: run.ratio(HPET, threads) for threads in run.threads}
    if run.per_host_cpu >= 4:
        gain = ratios.get(run.vcpus)
        if gain is None:
            found.append(f"nothing measured with {run.vcpus} threads")
        elif gain < OVERCOMMITTED_GAIN:
            found.append(
                f"HPET, {run.vcpus} threads on {run.host_cpus} CPUs: {gain:.2f} times faster, "
                f"not {OVERCOMMITTED_GAIN:g}"
            )
    elif run.per_host_cpu == 1:
        found += [
            f"HPET, {threads} thread(s) on as many vCPUs as host CPUs: {1 / ratio:.2f} times as long, "
            f"not {WORST_WITHOUT:g} at most"
            for threads, ratio in ratios.items()
            if ratio is not None and 1 / ratio > WORST_WITHOUT
        ]
    return found


def order_problems(records: Iterable[Record], calls: int) -> list[str]:
    """Whether all calls were made, saw each other, and none went backwards."""
    found = []
    orders = of_kind(records, "order")
    for record in orders:
        name, result = record["clocksource"], record["result"]
        if result is None or result["calls"] < calls:
            found.append(f"{name}: {result['calls'] if result else 0} calls, not {calls}")
            continue
        if result["violations"] or record["wrong"]:
            found.append(f"{name}: {result['violations']} of {result['calls']} calls went backwards")
        if not result["crossed"]:
            found.append(f"{name}: no call came after another CPU's")
    return found if orders else ["no order was checked"]


def drift_problems(records: Iterable[Record], references: Sequence[str], cpus: int) -> list[str]:
    """Whether each clocksource was held against all references, on all CPUs, and kept their pace."""
    found = []
    drifts = of_kind(records, "drift")
    watched = {(record["clocksource"], record["reference"]) for record in drifts}
    wanted = [(name, reference) for name in CLOCKSOURCES for reference in references]
    found += [
        f"{name} was not held against {reference}"
        for name, reference in wanted
        if (name, reference) not in watched
    ]
    for record in drifts:
        what = f"{record['clocksource']} against {record['reference']}"
        if record["wrong"]:
            found.append(f"{what}: {record['wrong']}")
        seen = record["result"]["cpus"] if record["result"] else []
        if len(seen) != cpus:
            found.append(f"{what}: looked at {len(seen)} CPUs, not {cpus}")
        found += [
            f"{what}: CPU {cpu['cpu']} is known to {cpu['uncertainty_ppm']:.3g} ppm only"
            for cpu in seen
            if cpu["uncertainty_ppm"] > KNOWN_TO_PPM
        ]
    return found


def table(runs: Sequence[Run]) -> str:
    """Return a table in Markdown for each clocksource."""
    return "\n".join(_table(runs, clocksource) for clocksource in CLOCKSOURCES)


def _table(runs: Sequence[Run], clocksource: str) -> str:
    kernels = [kernel for kernel in KERNELS if any(run.cost(kernel, clocksource, 1) for run in runs)]
    head = [
        "vCPUs on host CPUs",
        "boots",
        "threads",
        *(f"{kernel}: us" for kernel in kernels),
        "gain",
    ]
    lines = [f"**{clocksource}**", "", *heading(head)]
    for run in sorted(runs, key=lambda run: run.vcpus):
        for threads in run.threads:
            found = [run.cost(kernel, clocksource, threads) for kernel in kernels]
            ratio = run.ratio(clocksource, threads)
            shape = [f"{run.vcpus} on {run.host_cpus}", str(run.boots), str(threads)]
            gain = f"{ratio:.2f}x" if ratio else ""
            lines.append(row([*shape, *(_cell(cost) for cost in found), gain]))
    return "\n".join([*lines, ""])


def _cell(cost: Cost | None) -> str:
    return f"{cost.median:.2f} ({min(cost.us):.2f} to {max(cost.us):.2f})" if cost else ""


def load(path: Path) -> Run:
    """Read what keeping.save() wrote; KeyError or TypeError for anything else."""
    facts = json.loads(path.read_text())
    found = [Cost(**{**cost, "us": tuple(cost["us"])}) for cost in facts.pop("costs")]
    return Run(**facts, costs=tuple(found))
