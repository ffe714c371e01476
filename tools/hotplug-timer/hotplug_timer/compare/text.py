"""A comparison as tables, and as the words and numbers in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TextIO

from hotplug_common.boots import MOST_BOOTS, ONE_BOOT, PAIRED, WELCH, WITHIN, Effect
from hotplug_common.stats import SLOWER, TOO_FEW, Interval
from hotplug_common.tables import NONE, Case, Column, Kind, Outcome, Sheet, Suite, Table
from hotplug_timer.compare.comparison import COUNT_NAMES, Comparison, CountRow, Row
from hotplug_timer.compare.summary import comparison_entry, count_entry
from hotplug_timer.notices import print_lines

JUNIT_SUITE = "hotplug-timer compare"
#: What is not simply passed.
JUNIT_OUTCOMES = {
    SLOWER: Outcome.FAILED,
    f"{SLOWER} {WITHIN}": Outcome.FAILED,
    TOO_FEW: Outcome.SKIPPED,
    ONE_BOOT: Outcome.SKIPPED,
}
#: In words, by `Effect.test`; the others are of ranks.
TESTS = {WELCH: "Welch's t test of boots", PAIRED: "t test of boots that both variants share"}


def print_notices(comparison: Comparison, stream: TextIO) -> None:
    """Print what to mind, one line each."""
    print_lines("note", comparison.notices, stream)
    print_lines("warning", comparison.warnings, stream)


def sheet(comparison: Comparison) -> Sheet:
    """Return what `compare` prints."""
    method = method_text(comparison)
    return Sheet(
        tables=(seconds_table(comparison), boots_table(comparison), counts_table(comparison)),
        lead=(*_conditions(comparison), *([method] if method else [])),
        facts={
            "baseline": comparison.baseline,
            "emulated": comparison.emulated,
            "cpus": comparison.shape.cpus,
        },
        remarks={"warnings": list(comparison.warnings), "notices": list(comparison.notices)},
        suite=Suite(
            JUNIT_SUITE,
            [_case(row, row.effect) for row in comparison.rows if row.effect],
            [*comparison.warnings, *comparison.notices],
        ),
    )


def seconds_table(comparison: Comparison) -> Table[Row]:
    """Return the seconds; the headings tell when they are emulated."""
    mixed = len({row.emulated for row in comparison.rows}) > 1
    unit = "s, some emulated" if mixed else "s, emulated" if comparison.emulated else "s"

    def verdict(row: Row) -> str:
        if row.effect:
            return verdict_text(row.effect, row)
        return "baseline" if row.variant == comparison.baseline else NONE

    return Table(
        "comparisons",
        (
            Column("operation", lambda row: row.operation, Kind.WORDS),
            Column("variant", lambda row: row.variant, Kind.WORDS),
            Column("n", lambda row: str(row.summary.n)),
            Column(f"average ({unit})", lambda row: f"{row.summary.mean:.3f}"),
            Column("decrease", _of_effect(lambda effect: f"{effect.decrease_percent:.3f}%")),
            Column(f"median ({unit})", lambda row: f"{row.summary.median:.3f}"),
            Column("median decrease, 95% interval", _of_effect(decrease_text)),
            Column(
                "p, Holm's" if comparison.adjusted else "p",
                _of_effect(lambda effect: format_p(effect.p_adjusted)),
            ),
            Column("verdict", verdict, Kind.WORDS),
        ),
        comparison.rows,
        record=partial(comparison_entry, comparison),
        flat=partial(flat_entry, comparison),
    )


def boots_table(comparison: Comparison) -> Table[Row]:
    """Return how sure the comparison is; its figures for programs are in the table of seconds."""

    def finds(effect: Effect) -> str:
        return _percent(effect.smallest_effect_percent)

    def needed(effect: Effect) -> str:
        if effect.smallest_effect_percent is None:
            return NONE
        return f"more than {MOST_BOOTS}" if effect.boots_needed is None else str(effect.boots_needed)

    # Within one boot there is nothing to say about boots.
    several = any(row.spread.boots > 1 or (row.effect and not row.effect.paired) for row in comparison.rows)
    rows = comparison.rows if several else ()
    return Table(
        "boots",
        (
            Column("operation", lambda row: row.operation, Kind.WORDS),
            Column("variant", lambda row: row.variant, Kind.WORDS),
            Column("boots x iterations", lambda row: f"{row.spread.boots} x {_range(row.spread.iterations)}"),
            Column("spread of boots", lambda row: _percent(row.spread.boot_sd_percent)),
            Column("spread within boots", lambda row: _percent(row.spread.within_sd_percent)),
            Column("smallest decrease found", _of_effect(finds)),
            Column("boots a side to find 5%", _of_effect(needed)),
            Column("p, boots permuted", _of_effect(lambda effect: format_p(effect.p_permutation))),
        ),
        rows,
        "how sure: spreads are standard deviations, found is what 9 of 10 such comparisons call",
    )


def _of_effect(show: Callable[[Effect], str]) -> Callable[[Row], str]:
    return lambda row: show(row.effect) if row.effect else NONE


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}%"


def counts_table(comparison: Comparison) -> Table[CountRow]:
    """Return the counts; a range where counted iterations differ."""

    def count(name: str) -> Column[CountRow]:
        return Column(COUNT_NAMES[name], lambda row: _range(row.values.get(name)))

    return Table(
        "counts",
        (
            Column("operation", lambda row: row.operation, Kind.WORDS),
            Column("variant", lambda row: row.variant, Kind.WORDS),
            Column("n", lambda row: str(max(map(len, row.values.values())))),
            *map(count, comparison.count_names),
        ),
        comparison.counts,
        "per transition, counted with tracing on and never timed",
        record=count_entry,
    )


def decrease_text(effect: Effect) -> str:
    """Return the decrease of the median and its interval."""
    return format_interval(effect.median_decrease_percent, effect.interval_percent)


def format_interval(value: float, interval: Interval | None) -> str:
    """Return a median decrease and its interval."""
    if interval is None:
        return f"{value:.1f}%"
    low = f"{interval.low:.1f}" if interval.low > -10_000 else "below -10000"
    return f"{value:.1f}% ({low} to {interval.high:.1f})"


def format_p(value: float | None) -> str:
    """Return a p-value with two digits that count."""
    if value is None:
        return NONE
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


def verdict_text(effect: Effect, row: Row) -> str:
    """Return the verdict, and with too few samples or boots what stands against more."""
    if effect.holds_below_boot_sd_percent is not None:
        return f"{ONE_BOOT}: boots that differ by {effect.holds_below_boot_sd_percent:.0f}% explain it too"
    if effect.verdict != TOO_FEW:
        return effect.verdict
    return f"{TOO_FEW}: n = {row.summary.n} cannot go below p = {effect.min_p_adjusted:.2g}"


def method_text(comparison: Comparison) -> str:
    """Return how p-values came about, in one sentence."""
    effects = [row.effect for row in comparison.rows if row.effect]
    tests = sorted({effect.test for effect in effects if effect.test}, reverse=True)
    words = [TESTS.get(test, f"two-sided Mann-Whitney test {WITHIN}, {test}") for test in tests]
    adjusted = ", adjusted by Holm's method for the number of variants" if comparison.adjusted else ""
    return f"p: {' or '.join(words)}{adjusted}" if words else ""


def flat_entry(comparison: Comparison, row: Row) -> dict[str, object]:
    """Return one row of the comparison as a flat record, numbers unrounded, with its counts."""
    entry = comparison_entry(comparison, row)
    interval = entry.pop("interval_percent")
    low, high = interval if isinstance(interval, list) else (None, None)
    counts = comparison.count_row(row.operation, row.variant)
    return {
        **entry,
        "interval_low_percent": low,
        "interval_high_percent": high,
        **{name: counts.typical(name) if counts else None for name in comparison.count_names},
    }


def _conditions(comparison: Comparison) -> tuple[str, ...]:
    shape = comparison.shape
    forced = "compared by --force, though the runs do not compare; the first one's machine:"
    seconds = "emulated CPUs: seconds are not hardware's" if comparison.emulated else "hardware seconds"
    machine = (
        f"{shape.machine}, {shape.cpus} CPUs ({shape.cores} cores x SMT{shape.threads_per_core}),"
        f" {seconds}; lower is better"
    )
    return (forced, machine) if comparison.forced else (machine,)


def _case(row: Row, effect: Effect) -> Case:
    """Return the test case of a verdict: failed when slower, skipped with too few samples."""
    return Case(
        name=row.variant,
        group=row.operation,
        seconds=row.summary.median,
        outcome=JUNIT_OUTCOMES.get(effect.verdict, Outcome.PASSED),
        verdict=effect.verdict,
        sentence=(
            f"{verdict_text(effect, row)}; median decrease {decrease_text(effect)},"
            f" p = {format_p(effect.p_adjusted)}"
        ),
    )


def _range(values: tuple[int, ...] | None) -> str:
    if not values:
        return NONE
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"
