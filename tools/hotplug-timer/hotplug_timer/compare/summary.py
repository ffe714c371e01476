"""summary.json: the numbers other tools read. Keys are stable; docs/reference/result-format.md lists them."""

from __future__ import annotations

from collections.abc import Sequence

from hotplug_host.operations import key_of
from hotplug_timer.compare.comparison import Comparison, CountRow, Row
from hotplug_timer.reader import Dataset, Run

SUMMARY_SCHEMA = "hotplug-timer/summary/1"
#: The variant whose speed-up is the headline where several were measured.
HEADLINE = "patched"


def summarize(data: Dataset, comparison: Comparison, base: str) -> dict[str, object]:
    """Return summary.json's content."""
    shape = comparison.shape
    headline = headline_label(comparison)
    return {
        "schema": SUMMARY_SCHEMA,
        "base": base,
        "baseline": comparison.baseline,
        "emulated": comparison.emulated,
        "machine": shape.machine,
        "cpus": shape.cpus,
        "cores": shape.cores,
        "threads_per_core": shape.threads_per_core,
        "operations": list(comparison.operations),
        "variants": {label: _variant(data, comparison, label) for label in comparison.labels},
        "speedup_of": headline,
        "speedup": _speedups(comparison, headline),
        "comparisons": [comparison_entry(comparison, row) for row in comparison.rows],
        "warnings": list(comparison.warnings),
        "notices": list(comparison.notices),
    }


def headline_label(comparison: Comparison) -> str | None:
    """Return the variant the headline is about; None when there is only the baseline."""
    others = [label for label in comparison.labels if label != comparison.baseline]
    if HEADLINE in others:
        return HEADLINE
    return others[-1] if others and comparison.baseline in comparison.labels else None


def comparison_entry(comparison: Comparison, row: Row) -> dict[str, object]:
    """Return one row of the comparison; effect keys are null for the baseline."""
    effect = row.effect
    interval = effect.interval_percent if effect else None
    base = comparison.row(row.operation, comparison.baseline)
    return {
        "operation": row.operation,
        "variant": row.label,
        "n": row.summary.n,
        "n_baseline": base.summary.n if effect and base else None,
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
        "verdict": effect.verdict if effect else None,
    }


def count_entry(row: CountRow) -> dict[str, object]:
    """Return the counts of one operation and variant, one value per counted iteration."""
    return {
        "operation": row.operation,
        "variant": row.label,
        **{name: list(values) for name, values in row.values.items()},
    }


def _variant(data: Dataset, comparison: Comparison, label: str) -> dict[str, object]:
    runs = [run for run in data.runs if run.label == label]
    variant: dict[str, object] = {}
    counts: dict[str, object] = {}
    for operation in comparison.operations:
        key = key_of(operation)
        row = comparison.row(operation, label)
        variant[f"{key}_s"] = list(row.seconds) if row else []
        counted = comparison.count_row(operation, label)
        if counted:
            counts[key] = {name: counted.typical(name) for name in counted.values}
    variant["counts"] = counts
    variant["kernels"] = list(dict.fromkeys(run.host.kernel_release for run in runs))
    variant["blocks"] = len(runs)
    for status in ("failed", "invalid"):
        variant[status] = _number_of(runs, status)
    return variant


def _number_of(runs: Sequence[Run], status: str) -> int:
    return sum(1 for run in runs for _ in run.iterations.select(lambda kind: kind.status == status))


def _speedups(comparison: Comparison, label: str | None) -> dict[str, float | None]:
    speedups: dict[str, float | None] = {}
    for operation in comparison.operations:
        row = comparison.row(operation, label) if label else None
        speedups[key_of(operation)] = row.effect.speedup if row and row.effect else None
    return speedups
