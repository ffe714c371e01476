"""summary.json: the numbers other tools read. Keys are stable; docs/reference/result-format.md lists them."""

from __future__ import annotations

from collections.abc import Sequence

from hotplug_host.operations import key_of
from hotplug_timer.compare.comparison import Comparison, CountRow, Row
from hotplug_timer.reader import Dataset, Run

SUMMARY_SCHEMA = "hotplug-timer/summary/1"
#: The variant whose speed-up is the headline where several were measured.
HEADLINE = "patched"


def summarize(data: Dataset, comparison: Comparison, line: str) -> dict[str, object]:
    """Return summary.json's content."""
    shape = comparison.shape
    headline = headline_variant(comparison)
    return {
        "schema": SUMMARY_SCHEMA,
        "line": line,
        "base": line,
        "baseline": comparison.baseline,
        "emulated": comparison.emulated,
        "machine": shape.machine,
        "cpus": shape.cpus,
        "cores": shape.cores,
        "threads_per_core": shape.threads_per_core,
        "operations": list(comparison.operations),
        "variants": {variant: _variant(data, comparison, variant) for variant in comparison.variants},
        "speedup_of": headline,
        "speedup": _speedups(comparison, headline),
        "comparisons": [comparison_entry(comparison, row) for row in comparison.rows],
        "warnings": list(comparison.warnings),
        "notices": list(comparison.notices),
    }


def headline_variant(comparison: Comparison) -> str | None:
    """Return the variant the headline is about; None when there is only the baseline."""
    others = [variant for variant in comparison.variants if variant != comparison.baseline]
    if HEADLINE in others:
        return HEADLINE
    return others[-1] if others and comparison.baseline in comparison.variants else None


def comparison_entry(comparison: Comparison, row: Row) -> dict[str, object]:
    """Return one row of the comparison; effect keys are null for the baseline."""
    effect = row.effect
    interval = effect.interval_percent if effect else None
    baseline = comparison.row(row.operation, comparison.baseline)
    return {
        "operation": row.operation,
        "variant": row.variant,
        "n": row.summary.n,
        "n_baseline": baseline.summary.n if effect and baseline else None,
        "boots": row.spread.boots,
        "boots_baseline": baseline.spread.boots if effect and baseline else None,
        "iterations_per_boot": list(row.spread.iterations),
        "boot_sd_percent": row.spread.boot_sd_percent,
        "within_sd_percent": row.spread.within_sd_percent,
        "mean_s": row.summary.mean,
        "median_s": row.summary.median,
        "sd_s": row.summary.sd,
        "min_s": row.summary.minimum,
        "max_s": row.summary.maximum,
        "emulated": row.emulated,
        "decrease_percent": effect.decrease_percent if effect else None,
        "median_decrease_percent": effect.median_decrease_percent if effect else None,
        "interval_percent": [interval.low, interval.high] if interval else None,
        "interval_method": interval.method if interval else None,
        "speedup": effect.speedup if effect else None,
        "test": effect.test if effect else None,
        "p_value": effect.p_value if effect else None,
        "min_p": effect.min_p if effect else None,
        "p_adjusted": effect.p_adjusted if effect else None,
        "min_p_adjusted": effect.min_p_adjusted if effect else None,
        "p_permutation": effect.p_permutation if effect else None,
        "paired": effect.paired if effect else None,
        "smallest_effect_percent": effect.smallest_effect_percent if effect else None,
        "boots_needed_for_5_percent": effect.boots_needed if effect else None,
        "holds_below_boot_sd_percent": effect.holds_below_boot_sd_percent if effect else None,
        "verdict": effect.verdict if effect else None,
    }


def count_entry(row: CountRow) -> dict[str, object]:
    """Return the counts of one operation and variant, one value per counted iteration."""
    return {
        "operation": row.operation,
        "variant": row.variant,
        **{name: list(values) for name, values in row.values.items()},
    }


def _variant(data: Dataset, comparison: Comparison, variant: str) -> dict[str, object]:
    runs = [run for run in data.runs if run.variant == variant]
    found: dict[str, object] = {}
    counts: dict[str, object] = {}
    for operation in comparison.operations:
        key = key_of(operation)
        row = comparison.row(operation, variant)
        found[f"{key}_s"] = list(row.seconds) if row else []
        counted = comparison.count_row(operation, variant)
        if counted:
            counts[key] = {name: counted.typical(name) for name in counted.values}
    found["counts"] = counts
    found["kernels"] = list(dict.fromkeys(run.host.kernel_release for run in runs))
    found["blocks"] = len(runs)
    for status in ("failed", "invalid"):
        found[status] = _number_of(runs, status)
    return found


def _number_of(runs: Sequence[Run], status: str) -> int:
    return sum(1 for run in runs for _ in run.iterations.select(lambda kind: kind.status == status))


def _speedups(comparison: Comparison, variant: str | None) -> dict[str, float | None]:
    speedups: dict[str, float | None] = {}
    for operation in comparison.operations:
        row = comparison.row(operation, variant) if variant else None
        speedups[key_of(operation)] = row.effect.speedup if row and row.effect else None
    return speedups
