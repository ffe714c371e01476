"""Printing the verdicts of a history: table, markdown, CSV, JSON, JUnit."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import Console

from hotplug_timer.compare import junit
from hotplug_timer.compare.text import (
    NONE,
    PLAIN_WIDTH,
    format_p,
    markdown_table,
    printable_entry,
    terminal_table,
)
from hotplug_timer.history.changes import MIN_POINTS, Change
from hotplug_timer.history.entry import Conditions, Entry
from hotplug_timer.history.series import INSUFFICIENT, REGRESSION, Outlook, Series

SCHEMA = "hotplug-timer/history/summary/1"
JUNIT_SUITE = "hotplug-timer history"
JUNIT_OUTCOMES = {REGRESSION: junit.Outcome.FAILED, INSUFFICIENT: junit.Outcome.SKIPPED}
WORDS = frozenset({"host", "operation", "variant", "conditions", "since", "verdict"})
HEADER = [
    "host",
    "operation",
    "variant",
    "verdict",
    "change",
    "since",
    "level (s)",
    "newest (s)",
    "runs",
    "failed",
    "conditions",
]


def print_outlook(outlook: Outlook, style: str, stream: TextIO) -> None:
    """Print verdicts as "table", "markdown", "csv", "json" or "junit"."""
    if style == "table":
        tty = stream.isatty()
        console = Console(
            file=stream, width=None if tty else PLAIN_WIDTH, highlight=False, markup=False, emoji=False
        )
        console.print(terminal_table(HEADER, rows(outlook), tty, WORDS))
        return
    writers = {"markdown": to_markdown, "csv": to_csv, "json": to_json, "junit": to_junit}
    stream.write(writers[style](outlook))


def rows(outlook: Outlook) -> list[list[str]]:
    """Return the cells of `HEADER`, a row for each series."""
    return [
        [
            series.key.host,
            series.key.operation,
            series.key.variant,
            verdict_text(series),
            f"{series.change.percent:+.1f}%" if series.change else NONE,
            f"{series.points[series.change.at].time:%Y-%m-%d}" if series.change else NONE,
            f"{series.level_s:.3f}",
            f"{series.last.result.median_s:.3f}",
            str(len(series.points)),
            str(len(series.failures)),
            describe(series.key.conditions),
        ]
        for series in outlook.series
    ]


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
    return f"{INSUFFICIENT}: {len(series.points)} of {MIN_POINTS} runs"


def sentence(series: Series) -> str:
    """Return what there is to say about a series, in one sentence."""
    change = series.change
    if change is None:
        return f"{verdict_text(series)} at {series.level_s:.3f} s"
    return (
        f"{series.verdict}: {change.percent:+.1f}% since {since(series, change)},"
        f" from {change.before_s:.3f} s to {change.after_s:.3f} s, p = {format_p(change.p_value)}"
    )


def failed_text(entry: Entry) -> str:
    """Return a failed run in one line."""
    return f"{entry.host} {entry.variant}: the run of {entry.time:%Y-%m-%d %H:%M} failed: {entry.failed}"


def to_markdown(outlook: Outlook) -> str:
    """Return the table in GitHub's markdown."""
    return markdown_table(HEADER, rows(outlook))


def to_csv(outlook: Outlook) -> str:
    """Return one line per series, numbers unrounded; empty where there is none."""
    buffer = io.StringIO()
    entries = [_flat(series) for series in outlook.series]
    if entries:
        writer = csv.DictWriter(buffer, list(entries[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(printable_entry, entries))
    return buffer.getvalue()


def to_json(outlook: Outlook) -> str:
    """Return verdicts, changes and failed runs as one JSON object, as in history-summary-v1.schema.json."""
    content = {
        "schema": SCHEMA,
        "runs": outlook.runs,
        "series": [{**_entry(series), "changes": list(_changes(series))} for series in outlook.series],
        "failed": [
            {
                "run_id": entry.run_id,
                "started": entry.started,
                "host": entry.host,
                "variant": entry.variant,
                "reason": entry.failed,
            }
            for entry in outlook.failures
        ],
    }
    return json.dumps(content, indent=2) + "\n"


def to_junit(outlook: Outlook) -> str:
    """Return JUnit XML: a case per series, failed when slower; an error per newest run that failed."""
    cases = [
        junit.Case(
            name=f"{series.key.variant} ({describe(series.key.conditions)})",
            group=f"{series.key.host} {series.key.operation}",
            seconds=series.last.result.median_s,
            outcome=JUNIT_OUTCOMES.get(series.verdict, junit.Outcome.PASSED),
            verdict=series.verdict,
            sentence=sentence(series),
        )
        for series in outlook.series
    ]
    cases += [
        junit.Case(
            name=entry.variant,
            group=f"{entry.host} newest run",
            seconds=None,
            outcome=junit.Outcome.ERROR,
            verdict="failed",
            sentence=failed_text(entry),
        )
        for entry in outlook.failed
    ]
    return junit.to_xml(JUNIT_SUITE, cases, [failed_text(entry) for entry in outlook.failures])


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
        "counts": series.last.result.counts,
        "level_s": series.level_s,
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
