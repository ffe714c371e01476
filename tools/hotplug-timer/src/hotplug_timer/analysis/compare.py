"""From runs to the table: per operation and variant seconds, effect, counts and what to mind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from hotplug_timer.analysis import stats
from hotplug_timer.analysis.reader import Dataset, Iteration, Run, Shape
from hotplug_timer.errors import ExitCode, ToolError

#: Count name to the words for it.
COUNT_NAMES = {
    "synchronize_rcu": "grace-period waits (synchronize_rcu)",
    "synchronize_rcu_expedited": "expedited ones",
    "stop_machine": "stop_machine rendezvous",
    "domain_rebuild": "sched-domain rebuilds",
    "chunks": "chunks of CPUs",
    "serial_chunks": "of them one by one",
}


@dataclass(frozen=True)
class Row:
    """One variant under one operation; `effect` is None for the baseline and without one."""

    operation: str
    label: str
    seconds: tuple[float, ...]
    summary: stats.Summary
    effect: stats.Effect | None


@dataclass(frozen=True)
class CountRow:
    """Counts per transition of one variant under one operation, one value per counted iteration."""

    operation: str
    label: str
    values: dict[str, tuple[int, ...]]

    def typical(self, name: str) -> float | int | None:
        """Return the median count; None when this kernel did not give that count."""
        values = self.values.get(name)
        if not values:
            return None
        middle = median(values)
        return int(middle) if middle == int(middle) else middle


@dataclass(frozen=True)
class Comparison:
    """What `compare` and `report` show."""

    baseline: str
    labels: tuple[str, ...]
    operations: tuple[str, ...]
    shape: Shape
    emulated: bool
    rows: tuple[Row, ...]
    counts: tuple[CountRow, ...]
    warnings: tuple[str, ...]
    notices: tuple[str, ...]

    def row(self, operation: str, label: str) -> Row | None:
        """Return the row of one cell; None when it has no sample."""
        return next((row for row in self.rows if (row.operation, row.label) == (operation, label)), None)

    @property
    def count_names(self) -> list[str]:
        """What was counted in at least one cell, in the order of `COUNT_NAMES`."""
        return [name for name in COUNT_NAMES if any(name in row.values for row in self.counts)]

    def count_row(self, operation: str, label: str) -> CountRow | None:
        """Return the counts of one cell; None when nothing was counted."""
        return next((row for row in self.counts if (row.operation, row.label) == (operation, label)), None)


def compare(data: Dataset, baseline: str) -> Comparison:
    """Compare every variant with the baseline; ToolError when the runs cannot be compared."""
    shape = _common_shape(data.runs)
    emulated = _common_emulation(data.runs)
    labels = _labels(data.runs, baseline)
    operations = tuple(_unique(name for run in data.runs for name in run.operations))
    rows: list[Row] = []
    counts: list[CountRow] = []
    for operation in operations:
        base = timed_seconds(data.runs, baseline, operation)
        for label in labels:
            seconds = timed_seconds(data.runs, label, operation)
            if seconds:
                effect = stats.compare(base, seconds) if base and label != baseline else None
                rows.append(Row(operation, label, seconds, stats.summarize(seconds), effect))
            counted = _counts(data.runs, label, operation)
            if counted:
                counts.append(CountRow(operation, label, counted))
    if not rows and not counts:
        raise ToolError("no timed or counted iteration succeeded in these files", "run again", ExitCode.INPUT)
    notices = (*data.notices, *_run_notices(data.runs))
    warnings = tuple(_warnings(data.runs, labels, rows))
    return Comparison(
        baseline, labels, operations, shape, emulated, tuple(rows), tuple(counts), warnings, notices
    )


def timed_seconds(runs: Iterable[Run], label: str, operation: str) -> tuple[float, ...]:
    """Return the seconds that count: timed, succeeded, of this label and operation; in time order."""
    return tuple(
        item.seconds
        for run in runs
        if run.label == label
        for item in run.iterations
        if is_sample(item, operation) and item.seconds is not None
    )


def is_sample(item: Iteration, operation: str) -> bool:
    """Whether an iteration's seconds count for the operation."""
    return item.phase == "timed" and item.status == "ok" and item.operation == operation


def operation_key(operation: str) -> str:
    """Return the operation as it is named in summary.json: "off", "on", "smt4"."""
    level = operation.removeprefix("smt=")
    return level if level in ("off", "on") else f"smt{level}"


def _common_shape(runs: Sequence[Run]) -> Shape:
    first = runs[0]
    for run in runs[1:]:
        if run.shape != first.shape:
            raise ToolError(
                f"{first.source} and {run.source} were measured on different topologies:"
                f" {_describe(first.shape)} and {_describe(run.shape)}",
                "compare runs from one machine shape",
                ExitCode.INPUT,
            )
    return first.shape


def _describe(shape: Shape) -> str:
    return f"{shape.machine}, {shape.cores} cores x SMT{shape.threads_per_core}, CPUs {shape.present}"


def _common_emulation(runs: Sequence[Run]) -> bool:
    emulated = {run.host.emulated for run in runs}
    if len(emulated) > 1:
        raise ToolError(
            "some of these runs are emulated and some are not: their seconds do not compare",
            "compare one kind at a time",
            ExitCode.INPUT,
        )
    return emulated.pop()


def _labels(runs: Sequence[Run], baseline: str) -> tuple[str, ...]:
    found = _unique(run.label for run in runs)
    if baseline in found:
        return (baseline, *(label for label in found if label != baseline))
    if len(found) == 1:
        return tuple(found)
    raise ToolError(
        f"no run is labelled {baseline!r}; the labels are {', '.join(found)}",
        "choose one of them with --baseline",
        ExitCode.USAGE,
    )


def _counts(runs: Iterable[Run], label: str, operation: str) -> dict[str, tuple[int, ...]]:
    counted = [
        item.counts
        for run in runs
        if run.label == label
        for item in run.iterations
        if item.operation == operation and item.status == "ok" and item.counts is not None
    ]
    names = [name for name in COUNT_NAMES if any(name in counts for counts in counted)]
    return {name: tuple(counts[name] for counts in counted if name in counts) for name in names}


def _run_notices(runs: Sequence[Run]) -> list[str]:
    notices = []
    for run in runs:
        for item in run.iterations:
            if item.status != "ok":
                notices.append(
                    f"{run.source}: {run.label} {item.operation} {item.phase} iteration {item.index}"
                    f" {item.status} and is left out: {item.error}"
                )
        if run.outcome is None:
            notices.append(f"{run.source}: the run's end is missing; what it finished counts")
        elif run.outcome != "complete":
            notices.append(f"{run.source}: the run {_OUTCOMES[run.outcome]}; what it finished counts")
        if run.smt_restored is False:
            notices.append(f"{run.source}: the host's SMT state was not put back after the run")
    return notices


_OUTCOMES = {"interrupted": "was interrupted", "failed": "failed"}


def _warnings(runs: Sequence[Run], labels: Sequence[str], rows: Sequence[Row]) -> Iterable[str]:
    for label in labels:
        mine = [run for run in runs if run.label == label]
        kernels = _unique(f"{run.host.kernel_release} {run.host.kernel_version}" for run in mine)
        if len(kernels) > 1:
            yield (
                f"{label}: measured under {len(kernels)} kernels ({'; '.join(kernels)});"
                " give each kernel a label of its own"
            )
        if len({tuple(sorted(run.rcu.items())) for run in mine}) > 1:
            yield f"{label}: RCU settings differ between its runs; give each setting a label of its own"
    yield from _mixed(
        "boot methods",
        (run.host.boot_method for run in runs),
        "boot every variant in the same way",
    )
    yield from _mixed("hosts", (run.host.hostname for run in runs), "measure all variants on one host")
    iterations = [item for run in runs for item in run.iterations if item.status == "ok"]
    yield from _mixed(
        "paths",
        (item.path or "" for item in iterations),
        "use one powerpc-utils version, or --via smt-control, for all",
    )
    yield from _mixed("drivers", (item.driver for item in iterations), "give all runs the same --via")
    for row in rows:
        for position in stats.outliers(row.seconds):
            yield (
                f"{row.label} {row.operation}: sample {position + 1} ({row.seconds[position]:.3f} s) is an"
                " outlier; look for other load on the host, or add iterations or --warmup"
            )


def _mixed(what: str, values: Iterable[str], remedy: str) -> Iterable[str]:
    found = _unique(values)
    if len(found) > 1:
        yield f"different {what} are mixed ({', '.join(found)}); {remedy}"


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
