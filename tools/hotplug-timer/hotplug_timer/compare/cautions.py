"""What to mind about a comparison: notices say what was left out, warnings what to do about a doubt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from hotplug_common.boots import DIFFERENT, Effect, Spread, outliers
from hotplug_timer.compare.drift import drifts
from hotplug_timer.reader import Run

#: How many iterations, samples or the like are named before the rest is only counted.
MAX_NAMED = 3


class Sample(Protocol):
    """A row of the comparison, as far as warnings look at it."""

    @property
    def operation(self) -> str:
        """The operation."""

    @property
    def variant(self) -> str:
        """The variant."""

    @property
    def boots(self) -> tuple[tuple[float, ...], ...]:
        """Seconds of each boot, in time order."""

    @property
    def spread(self) -> Spread:
        """How the boots differ."""

    @property
    def effect(self) -> Effect | None:
        """The variant against the baseline."""


def run_notices(runs: Sequence[Run]) -> Iterator[str]:
    """Yield what was left out of the runs, and what is odd about how they ended."""
    for run in runs:
        yield from _left_out(run)
        if run.outcome is None:
            yield f"{run.source}: the run's end is missing; what it finished counts"
        elif run.outcome != "complete":
            yield f"{run.source}: the run {_OUTCOMES[run.outcome]}; what it finished counts"
        if not run.boot_is_known:
            yield f"{run.source}: the host has not recorded which boot it was; the run counts as one boot"
        if run.restored is False:
            yield f"{run.source}: the host was not put back as it was before the run"


_OUTCOMES = {"interrupted": "was interrupted", "failed": "failed"}


def _left_out(run: Run) -> Iterator[str]:
    items = run.iterations.select(lambda kind: kind.status != "ok")
    for item in islice(items, MAX_NAMED):
        yield (
            f"{run.source}: {run.variant} {item.operation} {item.phase} iteration {item.index}"
            f" {item.status} and is left out: {item.error}"
        )
    more = sum(1 for _ in items)
    if more:
        yield f"{run.source}: {run.variant}: {more} more iterations did not succeed and are left out"


def warnings_of(runs: Sequence[Run], variants: Sequence[str], rows: Sequence[Sample]) -> Iterator[str]:
    """Yield what makes the comparison doubtful, each with a remedy."""
    for variant in variants:
        yield from _mixed_variant(variant, [run for run in runs if run.variant == variant])
    yield from _mixed_conditions(runs)
    for row in rows:
        yield from _outliers(row)
        yield from _disagreement(row)
    yield from _few_boots(rows)
    for row, drift in zip(rows, drifts([row.boots for row in rows]), strict=True):
        if drift:
            way = "longer" if drift.change_percent > 0 else "shorter"
            yield (
                f"{row.variant} {row.operation}: samples get {way} along the boot, by"
                f" {abs(drift.change_percent):.0f}% from the first sample to the last (trend test,"
                f" p = {drift.p_value:.2g}); let the host come to rest with --warmup and --settle,"
                " and measure the variants in turns"
            )


def unique(values: Iterable[str]) -> list[str]:
    """Return the values without repetition, in their order."""
    return list(dict.fromkeys(values))


def _mixed_variant(variant: str, runs: Sequence[Run]) -> Iterator[str]:
    kernels = unique(f"{run.host.kernel_release} {run.host.kernel_version}" for run in runs)
    if len(kernels) > 1:
        yield (
            f"{variant}: measured under {len(kernels)} kernels ({'; '.join(kernels)});"
            " give each kernel a --variant of its own"
        )
    if len({tuple(sorted(run.rcu.items())) for run in runs}) > 1:
        yield f"{variant}: RCU settings differ between its runs; give each setting a --variant of its own"
    clocksources = unique(run.clocksource for run in runs if run.clocksource)
    if len(clocksources) > 1:
        yield (
            f"{variant}: measured with {len(clocksources)} clocksources ({', '.join(clocksources)});"
            " give each clocksource a --variant of its own"
        )


def _mixed_conditions(runs: Sequence[Run]) -> Iterator[str]:
    yield from _mixed(
        "boot methods",
        (run.host.boot_method for run in runs),
        "boot every variant in the same way",
    )
    yield from _mixed("hosts", (run.host.hostname for run in runs), "measure all variants on one host")
    # Clock checks switch nothing, so they have neither path nor driver.
    kinds = [kind for run in runs for kind in run.iterations.kinds() if kind.status == "ok"]
    yield from _mixed(
        "paths",
        (kind.path for kind in kinds if kind.path),
        "use one powerpc-utils version, or --via smt-control, for all",
    )
    yield from _mixed(
        "drivers", (kind.driver for kind in kinds if kind.driver), "give all runs the same --via"
    )


def _outliers(row: Sample) -> Iterator[str]:
    positions = outliers(row.boots)
    if not positions:
        return
    named = ", ".join(
        f"{f'boot {boot + 1}, ' if len(row.boots) > 1 else ''}sample {at + 1} ({row.boots[boot][at]:.3f} s)"
        for boot, at in positions[:MAX_NAMED]
    )
    if [at for _, at in positions] == [0]:
        yield (
            f"{row.variant} {row.operation}: {named}, the first one, is an outlier; add --warmup 1, or a"
            " longer --settle"
        )
        return
    kind = "is an outlier" if len(positions) == 1 else "are outliers"
    more = len(positions) - MAX_NAMED
    yield (
        f"{row.variant} {row.operation}: {named}{f' and {more} more' if more > 0 else ''} {kind};"
        " look for other load on the host, or add iterations or --warmup"
    )


def _disagreement(row: Sample) -> Iterator[str]:
    effect = row.effect
    if effect is None:
        return
    if effect.disagrees:
        yield (
            f"{row.variant} {row.operation}: the t test of boots (p = {effect.p_value:.2g}) and their"
            f" permutation (p = {effect.p_permutation:.2g}) disagree, as where one boot is unlike the others;"
            " look at every sample in `report`, and measure more boots"
        )
    if effect.verdict in DIFFERENT and (effect.decrease_percent > 0) != (effect.speedup > 1):
        yield (
            f"{row.variant} {row.operation}: {effect.verdict}, yet its average says otherwise, as a few"
            " samples outweigh the rest; look at every sample in `report`, and add iterations"
        )


def _few_boots(rows: Sequence[Sample]) -> Iterator[str]:
    """Yield what two boots leave open, and which boots a comparison in pairs leaves out."""
    two = unique(
        row.variant for row in rows if row.effect and min(row.effect.boots, row.effect.boots_baseline) == 2
    )
    if two:
        yield (
            f"{', '.join(two)}: two boots on a side show large effects only, and their verdict takes for"
            " granted that boots differ as normal numbers do; measure four boots of each variant or more"
        )
    for row in rows:
        alone = row.spread.boots - row.effect.boots if row.effect and row.effect.paired else 0
        if alone:
            yield (
                f"{row.variant} {row.operation}: {alone} of {row.spread.boots} boots lack the baseline and"
                " are left out of the verdict; measure both variants in each boot, or in none"
            )


def _mixed(what: str, values: Iterable[str], remedy: str) -> Iterator[str]:
    found = unique(values)
    if len(found) > 1:
        yield f"different {what} are mixed ({', '.join(found)}); {remedy}"
