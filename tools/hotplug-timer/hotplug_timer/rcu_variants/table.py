"""From runs to the table: checked to be what the rows say they are, and held against the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.operations import CPUS, DIRECTIONS, kind_of
from hotplug_timer.compare.cautions import unique
from hotplug_timer.compare.comparison import Comparison, CountRow, Row, compare, switched
from hotplug_timer.rcu_variants.variants import (
    BASELINE,
    Published,
    Timing,
    Variant,
    published,
    published_timings,
)
from hotplug_timer.reader import Dataset, Run


@dataclass(frozen=True)
class Line:
    """One variant going one way. `counts` is None when nothing was counted."""

    direction: str
    variant: Variant
    kernel: str
    row: Row
    counts: CountRow | None
    published: Published


@dataclass(frozen=True)
class Table:
    """The table, and what it was measured on; `switched` CPUs of all went off and on, one by one."""

    lines: tuple[Line, ...]
    comparison: Comparison
    hostname: str
    cpu_model: str
    boot_method: str
    switched: int
    source: Timing

    def of(self, direction: str) -> list[Line]:
        """Return the lines of one direction, in the table's order."""
        return [line for line in self.lines if line.direction == direction]


def make(data: Dataset, variants: Sequence[Variant]) -> Table:
    """Make the table of these variants; runs of others are left out, with a notice.

    ToolError (INPUT) when a row or a direction is missing, when a run is not what its row says, or when the
    rows were not measured on one machine in one way.
    """
    names = [variant.name for variant in variants]
    runs = [run for run in data.runs if run.variant in names]
    _check_rows(data.runs, names)
    for variant in variants:
        _check_setting(variant, [run for run in runs if run.variant == variant.name])
    _check_kernels(variants, runs)
    _check_one("hosts", (run.host.hostname for run in runs), "measure all rows on one host")
    _check_one("boot methods", (run.host.boot_method for run in runs), "boot every row in the same way")
    left_out = [name for name in unique(run.variant for run in data.runs) if name not in names]
    notices = [f"{name}: was not asked for as a row, and is left out" for name in left_out]
    comparison = compare(replace(data, runs=tuple(runs), notices=(*data.notices, *notices)), BASELINE)
    operations = _operations(runs)
    timings = published_timings()
    lines = []
    for direction in DIRECTIONS:
        operation, _ = operations[direction]
        for variant in variants:
            mine = [run for run in runs if run.variant == variant.name]
            row = comparison.row(operation, variant.name)
            if row is None:
                raise _wrong(
                    f"row {variant.name} has no timed {operation} that succeeded", "measure it again"
                )
            lines.append(
                Line(
                    direction=direction,
                    variant=variant,
                    kernel=mine[0].host.kernel_release,
                    row=row,
                    counts=comparison.count_row(operation, variant.name),
                    published=published(variant, direction, timings),
                )
            )
    host = runs[0].host
    return Table(
        tuple(lines),
        comparison,
        host.hostname,
        host.cpu_model,
        host.boot_method,
        operations["off"][1],
        timings[0],
    )


def _check_rows(runs: Sequence[Run], names: Sequence[str]) -> None:
    measured = unique(run.variant for run in runs)
    missing = [name for name in names if name not in measured]
    if missing:
        raise _wrong(
            f"no results of row {', '.join(missing)}; there are {', '.join(measured)}",
            "measure all with ansible/playbooks/rcu_variants.yml, or name those there are with --rows",
        )


def _check_setting(variant: Variant, runs: Sequence[Run]) -> None:
    """Refuse runs whose RCU settings are not the row's."""
    for run in runs:
        setting = run.rcu.get("rcu_expedited")
        if (setting not in (None, "0")) != variant.expedited:
            raise _wrong(
                f"{run.source}: row {variant.name} was measured with rcu_expedited={setting}",
                f"it is the row with rcu_expedited={int(variant.expedited)}: set it so, and measure again",
            )
        if variant.expedited and run.rcu.get("rcu_normal") not in (None, "0"):
            raise _wrong(
                f"{run.source}: rcu_normal was set, so that rcu_expedited did nothing",
                "write 0 to /sys/kernel/rcu_normal, and measure again",
            )


def _check_kernels(variants: Sequence[Variant], runs: Sequence[Run]) -> None:
    """Refuse rows of one kernel that ran several, and rows of different kernels that ran the same."""
    kernels: dict[str, list[str]] = {}
    for variant in variants:
        # Rows of the stock kernel share one.
        key = BASELINE if variant.stock else variant.name
        releases = [run.host.kernel_release for run in runs if run.variant == variant.name]
        kernels[key] = unique([*kernels.get(key, []), *releases])
    for name, releases in kernels.items():
        if len(releases) > 1:
            raise _wrong(
                f"rows of the kernel {name} ran {' and '.join(releases)}", "measure them on one and the same"
            )
    for name, (release,) in kernels.items():
        if name != BASELINE and [release] == kernels[BASELINE]:
            raise _wrong(
                f"row {name} ran {release}, the stock kernel",
                f"build its kernel with lpar-lab build-kernel --variant {name}",
            )


def _check_one(what: str, values: Iterable[str], remedy: str) -> None:
    found = unique(values)
    if len(found) > 1:
        raise _wrong(f"the rows are of different {what} ({', '.join(found)})", remedy)


def _operations(runs: Sequence[Run]) -> dict[str, tuple[str, int]]:
    """Return, by direction, the operation and how many CPUs it switches."""
    names = unique(name for run in runs for name in run.operations)
    others = [name for name in names if kind_of(name) != CPUS]
    if others:
        raise _wrong(f"{others[0]} is no switch of CPUs one by one", f"time {CPUS}=LIST")
    found: dict[str, tuple[str, int]] = {}
    for name in names:
        count, direction = switched(runs, name)
        if direction in found:
            raise _wrong(f"{found[direction][0]} and {name} are both {direction}", "time one CPU list")
        found[direction] = (name, count)
    missing = [direction for direction in DIRECTIONS if direction not in found]
    if missing:
        raise _wrong(f"nothing was switched {missing[0]}", f"time {CPUS}=LIST, which is off and on")
    return found


def _wrong(message: str, hint: str) -> ToolError:
    return ToolError(message, hint, ExitCode.INPUT)
