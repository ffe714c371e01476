"""From result files to timings: one per machine size, operation and variant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from hotplug_common.timings import Counts, Timing, relative_error
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.rcu import fqs_base
from hotplug_timer.compare.comparison import CountRow, common_emulation, counts_of, switched, timed_seconds
from hotplug_timer.reader import Dataset, Run, Shape


def from_results(data: Dataset) -> list[Timing]:
    """Return the timings in result files; ToolError (INPUT) when they cannot be taken together."""
    common_emulation(data.runs)
    machines = sorted({run.host.machine for run in data.runs})
    if len(machines) > 1:
        raise ToolError(
            f"these runs are of different architectures ({', '.join(machines)}): their prices differ",
            "predict from one at a time",
            ExitCode.INPUT,
        )
    timings: list[Timing] = []
    for shape, variant in dict.fromkeys((run.shape, run.variant) for run in data.runs):
        runs = [run for run in data.runs if (run.shape, run.variant) == (shape, variant)]
        for operation in dict.fromkeys(name for run in runs for name in run.operations):
            timings.extend(_timings(runs, shape, variant, operation))
    if not timings:
        raise ToolError("no timed iteration succeeded in these files", "run again", ExitCode.INPUT)
    return timings


def _timings(runs: Sequence[Run], shape: Shape, variant: str, operation: str) -> Iterable[Timing]:
    seconds = timed_seconds(runs, variant, operation)
    if not seconds:
        return
    toggled, direction = switched(runs, operation)
    first = runs[0]
    yield Timing(
        source=first.source,
        kernel=first.host.kernel_release,
        system=first.host.cpu_model,
        operation=operation,
        direction=direction,
        variant=variant,
        cpus=shape.cpus,
        toggled=toggled,
        seconds=median(seconds),
        n=len(seconds),
        error=relative_error(seconds),
        emulated=first.host.emulated,
        counts=_counts(runs, variant, operation, toggled),
        fqs_base=_fqs_base(first.rcu, shape.cpus),
    )


def _counts(runs: Sequence[Run], variant: str, operation: str, toggled: int) -> Counts | None:
    counted = CountRow(operation, variant, counts_of(runs, variant, operation))
    waits = counted.typical("synchronize_rcu")
    if waits is None:
        return None
    expedited = counted.typical("synchronize_rcu_expedited")
    if expedited is None:
        # The kernel cannot trace them: then its setting says whether all of them were.
        expedited = waits if runs[0].rcu.get("rcu_expedited") not in (None, "0") else 0
    return Counts(
        toggled,
        max(0.0, waits - expedited),
        expedited,
        counted.typical("stop_machine") or 0.0,
        counted.typical("domain_rebuild") or 0.0,
    )


def _fqs_base(rcu: dict[str, str], cpus: int) -> int | None:
    """Return what is left of the first wait, in jiffies, without the part that grows with the CPUs."""
    text = rcu.get("jiffies_till_first_fqs", "")
    if not text.isdecimal():
        return 1
    return fqs_base(int(text), cpus)
