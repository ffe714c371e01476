"""From runs to the table: per operation and variant seconds, effect, counts and what to mind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from hotplug_common import boots, stats
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.compare.cautions import run_notices, unique, warnings_of
from hotplug_timer.iterations import Kind
from hotplug_timer.reader import Dataset, Run, Shape

#: Count name to the words for it.
COUNT_NAMES = {
    "synchronize_rcu": "grace-period waits (synchronize_rcu)",
    "synchronize_rcu_expedited": "expedited ones",
    "stop_machine": "stop_machine rendezvous",
    "domain_rebuild": "sched-domain rebuilds",
    "chunks": "chunks of CPUs",
    "serial_chunks": "of them one by one",
}


#: The name of a boot, and the seconds of one run under it.
Block = tuple[str, tuple[float, ...]]


@dataclass(frozen=True)
class Row:
    """One variant under one operation; `effect` is None for the baseline and without one.

    `blocks` are the seconds of runs in time order, each with the name of its boot; `emulated` tells whether
    some of them are of emulated CPUs.
    """

    operation: str
    variant: str
    blocks: tuple[Block, ...]
    emulated: bool
    summary: stats.Summary
    spread: boots.Spread
    effect: boots.Effect | None

    @property
    def seconds(self) -> tuple[float, ...]:
        """Return the seconds in time order."""
        return tuple(second for _, seconds in self.blocks for second in seconds)

    @property
    def boots(self) -> tuple[tuple[float, ...], ...]:
        """Return the seconds of each boot, in time order."""
        return tuple(map(tuple, by_boot(self.blocks).values()))


@dataclass(frozen=True)
class CountRow:
    """Counts per transition of one variant under one operation, one value per counted iteration."""

    operation: str
    variant: str
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
    """What `compare` and `report` show. `emulated`: some seconds are; `forced`: runs do not really compare.

    `shape` is the first run's, and every run's unless `forced`.
    """

    baseline: str
    variants: tuple[str, ...]
    operations: tuple[str, ...]
    shape: Shape
    emulated: bool
    forced: bool
    rows: tuple[Row, ...]
    counts: tuple[CountRow, ...]
    warnings: tuple[str, ...]
    notices: tuple[str, ...]

    def row(self, operation: str, variant: str) -> Row | None:
        """Return the row of one cell; None when it has no sample."""
        return next((row for row in self.rows if (row.operation, row.variant) == (operation, variant)), None)

    @property
    def adjusted(self) -> bool:
        """Whether p-values are adjusted: several variants are held against the baseline."""
        return any(row.effect and row.effect.p_adjusted != row.effect.p_value for row in self.rows)

    @property
    def count_names(self) -> list[str]:
        """What was counted in at least one cell, in the order of `COUNT_NAMES`."""
        return [name for name in COUNT_NAMES if any(name in row.values for row in self.counts)]

    def count_row(self, operation: str, variant: str) -> CountRow | None:
        """Return the counts of one cell; None when nothing was counted."""
        return next(
            (row for row in self.counts if (row.operation, row.variant) == (operation, variant)), None
        )


def compare(data: Dataset, baseline: str, force: bool = False) -> Comparison:
    """Compare every variant with the baseline; ToolError when the runs cannot be compared.

    FORCE compares runs of different topologies, or emulated with real ones, and warns instead.
    """
    doubts = [text for text in (_shape_doubt(data.runs), _emulation_doubt(data.runs)) if text]
    if doubts and not force:
        raise ToolError(doubts[0], "compare one kind at a time, or all the same with --force", ExitCode.INPUT)
    variants = _variants(data.runs, baseline)
    operations = tuple(unique(name for run in data.runs for name in run.operations))
    rows: list[Row] = []
    counts: list[CountRow] = []
    for operation in operations:
        rows += _rows(data.runs, operation, variants, baseline)
        for variant in variants:
            counted = counts_of(data.runs, variant, operation)
            if counted:
                counts.append(CountRow(operation, variant, counted))
    if not rows and not counts:
        raise ToolError("no timed or counted iteration succeeded in these files", "run again", ExitCode.INPUT)
    forced = (f"{text}; do not rely on the verdict, compare one kind at a time" for text in doubts)
    return Comparison(
        baseline=baseline,
        variants=variants,
        operations=operations,
        shape=data.runs[0].shape,
        emulated=any(run.host.emulated for run in data.runs),
        forced=bool(doubts),
        rows=tuple(rows),
        counts=tuple(counts),
        warnings=(*forced, *warnings_of(data.runs, variants, rows)),
        notices=(*data.notices, *run_notices(data.runs)),
    )


def _rows(runs: Sequence[Run], operation: str, variants: Sequence[str], baseline: str) -> list[Row]:
    blocks = {variant: _blocks(runs, variant, operation) for variant in variants}
    samples = {variant: by_boot(mine) for variant, mine in blocks.items() if mine}
    others = [variant for variant in samples if variant != baseline and baseline in samples]
    effects = boots.compare_all(samples[baseline], [samples[variant] for variant in others]) if others else []
    effect_of = dict(zip(others, effects, strict=True))
    return [
        Row(
            operation=operation,
            variant=variant,
            blocks=blocks[variant],
            emulated=any(run.host.emulated for run in runs if run.variant == variant),
            summary=stats.summarize([second for seconds in sample.values() for second in seconds]),
            spread=boots.spread(sample),
            effect=effect_of.get(variant),
        )
        for variant, sample in samples.items()
    ]


def _blocks(runs: Iterable[Run], variant: str, operation: str) -> tuple[Block, ...]:
    found = ((run.boot, timed_seconds([run], variant, operation)) for run in runs)
    return tuple((boot, seconds) for boot, seconds in found if seconds)


def by_boot(blocks: Iterable[Block]) -> dict[str, list[float]]:
    """Return the seconds of each boot in time order: several runs under one boot are one."""
    found: dict[str, list[float]] = {}
    for boot, seconds in blocks:
        found.setdefault(boot, []).extend(seconds)
    return found


def timed_seconds(runs: Iterable[Run], variant: str, operation: str) -> tuple[float, ...]:
    """Return the seconds that count: timed, succeeded, of this variant and operation; in time order."""
    return tuple(
        float(seconds)
        for run in runs
        if run.variant == variant
        for seconds in run.iterations.seconds(lambda kind: is_sample(kind, operation))
    )


def is_sample(item: Kind, operation: str) -> bool:
    """Whether an iteration's seconds count for the operation."""
    return item.phase == "timed" and item.status == "ok" and item.operation == operation


def _shape_doubt(runs: Sequence[Run]) -> str | None:
    first = runs[0]
    for run in runs[1:]:
        if run.shape != first.shape:
            return (
                f"{first.source} and {run.source} were measured on different topologies:"
                f" {_describe(first.shape)} and {_describe(run.shape)}"
            )
    return None


def _describe(shape: Shape) -> str:
    return f"{shape.machine}, {shape.cores} cores x SMT{shape.threads_per_core}, CPUs {shape.present}"


def common_emulation(runs: Sequence[Run]) -> bool:
    """Return whether the runs are emulated; ToolError (INPUT) when some are and some are not."""
    doubt = _emulation_doubt(runs)
    if doubt:
        raise ToolError(doubt, "compare one kind at a time", ExitCode.INPUT)
    return runs[0].host.emulated


def _emulation_doubt(runs: Sequence[Run]) -> str | None:
    if len({run.host.emulated for run in runs}) > 1:
        return "some of these runs are emulated and some are not: their seconds do not compare"
    return None


def _variants(runs: Sequence[Run], baseline: str) -> tuple[str, ...]:
    found = unique(run.variant for run in runs)
    if baseline in found:
        return (baseline, *(variant for variant in found if variant != baseline))
    if len(found) == 1:
        return tuple(found)
    raise ToolError(
        f"no run is of variant {baseline!r}; there are {', '.join(found)}",
        "choose one of them with --baseline",
        ExitCode.USAGE,
    )


def switched(runs: Sequence[Run], operation: str) -> tuple[int, str]:
    """Return how many CPUs the operation switches, and which way most of them go: "off" or "on".

    Raises ToolError (INPUT) when it switched none.
    """
    for run in runs:
        for kind in run.iterations.kinds():
            if (kind.operation, kind.status) == (operation, "ok") and kind.direction is not None:
                return kind.switched, kind.direction
    raise ToolError(
        f"{runs[0].source}: {operation} switched no CPU", "leave that operation out", ExitCode.INPUT
    )


def counts_of(runs: Iterable[Run], variant: str, operation: str) -> dict[str, tuple[int, ...]]:
    """Return each count of this variant and operation, one value per counted iteration that succeeded."""
    counted = [
        item.counts
        for run in runs
        if run.variant == variant
        for item in run.iterations.select(lambda kind: _is_counted(kind, operation))
        if item.counts is not None
    ]
    names = [name for name in COUNT_NAMES if any(name in counts for counts in counted)]
    return {name: tuple(counts[name] for counts in counted if name in counts) for name in names}


def _is_counted(kind: Kind, operation: str) -> bool:
    return (kind.phase, kind.status, kind.operation) == ("counted", "ok", operation)
