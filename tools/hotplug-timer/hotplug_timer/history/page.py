"""The trend page, and the files beside it for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from hotplug_timer.compare.cautions import unique
from hotplug_timer.compare.text import format_p
from hotplug_timer.history import kcidb, render, trend
from hotplug_timer.history.metrics import check_path, write_metrics
from hotplug_timer.history.series import IMPROVEMENT, REGRESSION, Outlook
from hotplug_timer.report import downloads, html
from hotplug_timer.report.tables import MAX_ROWS, Table

PAGE, SUMMARY, JUNIT, KCIDB, METRICS = (
    "history.html",
    "history.json",
    "history-junit.xml",
    "history-kcidb.json",
    "history.prom",
)
CHANGES = ("host", "operation", "variant", "since (UTC)", "kernel", "from (s)", "to (s)", "change", "p")
FAILED = ("started (UTC)", "host", "variant", "kernel", "reason")


@dataclass(frozen=True)
class Headline:
    """A series whose verdict is to be seen from afar."""

    name: str
    figure: str
    line: str
    detail: str
    verdict: str
    emulated: bool


@dataclass(frozen=True)
class Trend:
    """A picture of a series. `svg` is our own drawing and goes into the page as it is."""

    name: str
    detail: str
    verdict: str
    labels: tuple[str, ...]
    svg: Markup
    shortened: bool


def write_report(
    outlook: Outlook, notices: Sequence[str], origin: str, directory: Path, metrics: Path | None
) -> list[Path]:
    """Write the page and the files beside it; returns their paths.

    METRICS is where the metrics go, None for beside the page. ToolError: ENVIRONMENT when writing fails,
    USAGE when ORIGIN or METRICS is no name for that; then nothing is written.
    """
    metrics_path = metrics or directory / METRICS
    check_path(metrics_path)
    texts = {
        PAGE: render_page(outlook, notices),
        SUMMARY: render.to_json(outlook),
        JUNIT: render.to_junit(outlook),
        KCIDB: kcidb.to_json(outlook, origin),
    }
    paths = html.write_files(directory, texts)
    write_metrics(outlook, metrics_path)
    return [*paths, metrics_path]


def render_page(outlook: Outlook, notices: Sequence[str]) -> str:
    """Return the page. NOTICES are what was odd about the store."""
    labels = tuple(unique(series.key.variant for series in outlook.series))
    embedded, left_out = downloads.embed(_data(outlook))
    return html.render(
        "history.html.j2",
        labels,
        (REGRESSION, IMPROVEMENT),
        outlook=outlook,
        hosts=unique(series.key.host for series in outlook.series),
        emulated=any(series.key.conditions.emulated for series in outlook.series),
        first=min((series.points[0].time for series in outlook.series), default=None),
        last=max((series.last.time for series in outlook.series), default=None),
        headlines=_headlines(outlook),
        notices=notices,
        failed=[render.failed_text(entry) for entry in outlook.failed],
        table=_verdicts_table(outlook),
        trends=_trends(outlook, labels),
        changes=_changes_table(outlook),
        failures=_failures_table(outlook),
        downloads=embedded,
        not_embedded=left_out,
    )


def _headlines(outlook: Outlook) -> list[Headline]:
    found = [*outlook.with_verdict(REGRESSION), *outlook.with_verdict(IMPROVEMENT)]
    return [
        Headline(
            series.key.name,
            f"{series.change.percent:+.1f}%",
            f"{series.change.before_s:.3f} s → {series.change.after_s:.3f} s",
            f"since {render.since(series, series.change)}",
            series.verdict,
            series.key.conditions.emulated,
        )
        for series in found
        if series.change
    ]


def _verdicts_table(outlook: Outlook) -> Table:
    # The conditions are below each picture: with them no sheet of paper would be wide enough.
    rows = [cells[:-1] for cells in render.rows(outlook)]
    return Table(
        "Verdict of each series",
        render.HEADER[:-1],
        rows[:MAX_ROWS],
        heads=3,
        words=render.WORDS,
        left_out=max(len(rows) - MAX_ROWS, 0),
    )


def _changes_table(outlook: Outlook) -> Table:
    rows = [
        (
            series.key.host,
            series.key.operation,
            series.key.variant,
            f"{series.points[change.at].time:%Y-%m-%d %H:%M}",
            series.points[change.at].kernel,
            f"{change.before_s:.3f}",
            f"{change.after_s:.3f}",
            f"{change.percent:+.1f}%",
            format_p(change.p_value),
        )
        for series in outlook.series
        for change in series.changes
    ]
    return Table(
        "All changes of level",
        CHANGES,
        rows[-MAX_ROWS:],
        heads=3,
        words=frozenset(CHANGES[:5]),
        left_out=max(len(rows) - MAX_ROWS, 0),
    )


def _failures_table(outlook: Outlook) -> Table:
    rows = [
        (
            f"{entry.time:%Y-%m-%d %H:%M}",
            entry.host,
            entry.variant,
            entry.kernel or "-",
            entry.failed or "",
        )
        for entry in reversed(outlook.failures)
    ]
    return Table(
        "Failed runs, the newest first",
        FAILED,
        rows[:MAX_ROWS],
        heads=3,
        words=frozenset(FAILED[:4]),
        texts=frozenset({"reason"}),
        left_out=max(len(rows) - MAX_ROWS, 0),
    )


def _trends(outlook: Outlook, labels: tuple[str, ...]) -> list[Trend]:
    return [
        Trend(
            series.key.name,
            render.describe(series.key.conditions),
            series.verdict,
            (series.key.variant,),
            Markup(trend.draw(series, labels, f"trend{at}")),  # noqa: S704 - what is not ours was escaped as XML
            trend.is_shortened(series),
        )
        for at, series in enumerate(outlook.series)
    ]


def _data(outlook: Outlook) -> Iterator[downloads.Datum]:
    yield downloads.Datum(
        "verdicts.csv",
        "text/csv",
        render.to_csv(outlook),
        "the verdicts, unrounded",
        "hotplug-timer history check --format csv prints it",
    )
    yield downloads.Datum(
        SUMMARY,
        "application/json",
        render.to_json(outlook),
        "all of it for programs",
        "it is beside this page",
    )
