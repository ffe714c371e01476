"""The verdicts of a history as a table, and as words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hotplug_common.tables import NONE, Case, Column, Kind, Outcome, Sheet, Suite, Table
from hotplug_timer.compare.text import format_p
from hotplug_timer.history.changes import MIN_POINTS, STEP, Change
from hotplug_timer.history.entry import Conditions, Entry
from hotplug_timer.history.series import INSUFFICIENT, REGRESSION, SUSPECT, Outlook, Series

SCHEMA = "hotplug-timer/history/summary/1"
JUNIT_SUITE = "hotplug-timer history"
JUNIT_OUTCOMES = {REGRESSION: Outcome.FAILED, INSUFFICIENT: Outcome.SKIPPED}


def sheet(outlook: Outlook) -> Sheet:
    """Return what `history check` prints; history-summary-v1.schema.json has the keys of the JSON."""
    return Sheet(
        tables=(verdicts_table(outlook),),
        facts={"schema": SCHEMA, "runs": outlook.runs},
        remarks={"failed": [_failed_entry(entry) for entry in outlook.failures]},
        suite=Suite(JUNIT_SUITE, _cases(outlook), [failed_text(entry) for entry in outlook.failures]),
    )


def verdicts_table(outlook: Outlook) -> Table[Series]:
    """Return the table with a row for each series; its last column is the conditions."""
    return Table(
        "series",
        (
            Column("host", lambda series: series.key.host, Kind.WORDS),
            Column("operation", lambda series: series.key.operation, Kind.WORDS),
            Column("variant", lambda series: series.key.variant, Kind.WORDS),
            Column("verdict", verdict_text, Kind.WORDS),
            Column("change", lambda series: f"{series.change.percent:+.1f}%" if series.change else NONE),
            Column(
                "since",
                lambda series: f"{series.points[series.change.at].time:%Y-%m-%d}" if series.change else NONE,
                Kind.WORDS,
            ),
            Column("level (s)", lambda series: f"{series.level_s:.3f}"),
            Column("newest (s)", lambda series: f"{series.last.result.median_s:.3f}"),
            Column("nights", lambda series: str(len(series.points))),
            Column("boots", lambda series: str(series.last.boots)),
            Column("spread", lambda series: _percent(series.last.result.spread_percent)),
            Column("finds", lambda series: _percent(series.found.anywhere_percent if series.found else None)),
            Column(
                "at a kernel",
                lambda series: _percent(series.found.at_kernel_percent if series.found else None),
            ),
            Column("failed", lambda series: str(len(series.failures))),
            Column("conditions", lambda series: describe(series.key.conditions), Kind.WORDS),
        ),
        outlook.series,
        record=lambda series: {**_entry(series), "changes": list(_changes(series))},
        flat=_flat,
    )


def describe(conditions: Conditions) -> str:
    """Return the conditions in a few words."""
    words = [f"{conditions.cpus} CPUs", "emulated" if conditions.emulated else "hardware"]
    words += [f"booted by {conditions.boot_method}", conditions.driver]
    words += ["rcu_expedited"] if conditions.rcu_expedited else []
    words += [conditions.clocksource] if conditions.clocksource else []
    return ", ".join(words)


def since(series: Series, change: Change) -> str:
    """Return when the first run after a change started, and its kernel."""
    point = series.points[change.at]
    return f"{point.time:%Y-%m-%d %H:%M}, {point.kernel}"


def verdict_text(series: Series) -> str:
    """Return the verdict, and with too few points how many there have to be."""
    if series.verdict != INSUFFICIENT:
        return series.verdict
    return f"{INSUFFICIENT}: {len(series.points)} of {MIN_POINTS} nights"


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}%"


def sentence(series: Series) -> str:
    """Return what there is to say about a series, in one sentence."""
    change = series.change
    if change is None:
        text = f"{verdict_text(series)} at {series.level_s:.3f} s"
        newest = f", and {series.last.result.median_s:.3f} s on the newest night"
        return text + newest if series.verdict == SUSPECT else text
    kind = "" if change.kind == STEP else f" ({change.kind})"
    return (
        f"{series.verdict}: {change.percent:+.1f}%{kind} since {since(series, change)},"
        f" from {change.before_s:.3f} s to {change.after_s:.3f} s, p = {format_p(change.p_value)}"
    )


def failed_text(entry: Entry) -> str:
    """Return a failed run in one line."""
    return f"{entry.host} {entry.variant}: the run of {entry.time:%Y-%m-%d %H:%M} failed: {entry.failed}"


def _cases(outlook: Outlook) -> list[Case]:
    """Return a test case per series, failed when slower, and an error per newest run that failed."""
    cases = [
        Case(
            name=f"{series.key.variant} ({describe(series.key.conditions)})",
            group=f"{series.key.host} {series.key.operation}",
            seconds=series.last.result.median_s,
            outcome=JUNIT_OUTCOMES.get(series.verdict, Outcome.PASSED),
            verdict=series.verdict,
            sentence=sentence(series),
        )
        for series in outlook.series
    ]
    return cases + [
        Case(
            name=entry.variant,
            group=f"{entry.host} newest run",
            seconds=None,
            outcome=Outcome.ERROR,
            verdict="failed",
            sentence=failed_text(entry),
        )
        for entry in outlook.failed
    ]


def _failed_entry(entry: Entry) -> dict[str, object]:
    return {
        "run_id": entry.run_id,
        "started": entry.started,
        "host": entry.host,
        "variant": entry.variant,
        "reason": entry.failed,
    }


def _entry(series: Series) -> dict[str, object]:
    key, change = series.key, series.change
    return {
        "host": key.host,
        "operation": key.operation,
        "variant": key.variant,
        "conditions": vars(key.conditions),
        "runs": len(series.points),
        "failed": len(series.failures),
        "newest": series.last.time.isoformat(),
        "kernel": series.last.kernel,
        "median_s": series.last.result.median_s,
        "n": series.last.result.n,
        "boots": series.last.boots,
        "spread_percent": series.last.result.spread_percent,
        "counts": series.last.result.counts,
        "level_s": series.level_s,
        "finds_percent": series.found and series.found.anywhere_percent,
        "finds_at_kernel_percent": series.found and series.found.at_kernel_percent,
        "change_percent": change.percent if change else None,
        "verdict": series.verdict,
    }


def _changes(series: Series) -> Iterator[dict[str, object]]:
    for change in series.changes:
        point = series.points[change.at]
        yield {
            "run_id": point.run_id,
            "started": point.time.isoformat(),
            "kernel": point.kernel,
            "before_s": change.before_s,
            "after_s": change.after_s,
            "percent": change.percent,
            "p_value": change.p_value,
            "kind": change.kind,
        }


def _flat(series: Series) -> dict[str, object]:
    entry = _entry(series)
    entry["conditions"] = describe(series.key.conditions)
    counts = series.last.result.counts
    entry["counts"] = " ".join(f"{name}={value:g}" for name, value in counts.items())
    return entry


def notices(outlook: Outlook, most: int) -> Sequence[str]:
    """Return the failed runs, newest first; those that are more than MOST are only counted."""
    shown = [failed_text(entry) for entry in reversed(outlook.failures[-most:])]
    more = len(outlook.failures) - len(shown)
    return [*shown, f"and {more} more failed runs"] if more > 0 else shown
