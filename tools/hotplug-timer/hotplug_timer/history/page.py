"""The trend page, and the files beside it for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from hotplug_common.files import write_files
from hotplug_common.tables import NONE, Column, Kind, to_csv, to_json, to_junit
from hotplug_timer.compare.cautions import unique
from hotplug_timer.compare.text import format_p
from hotplug_timer.history import kcidb, render, trend
from hotplug_timer.history.changes import Change
from hotplug_timer.history.entry import Entry
from hotplug_timer.history.metrics import check_path, write_metrics
from hotplug_timer.history.series import IMPROVEMENT, REGRESSION, SUSPECT, Outlook, Point, Series
from hotplug_timer.report import downloads, html
from hotplug_timer.report.tables import PageTable, page_table

PAGE, SUMMARY, JUNIT, KCIDB, METRICS = (
    "history.html",
    "history.json",
    "history-junit.xml",
    "history-kcidb.json",
    "history.prom",
)


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
    variants: tuple[str, ...]
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
    sheet = render.sheet(outlook)
    texts = {
        PAGE: render_page(outlook, notices),
        SUMMARY: to_json(sheet),
        JUNIT: to_junit(sheet),
        KCIDB: kcidb.to_json(outlook, origin),
    }
    paths = write_files(directory, texts, "report")
    write_metrics(outlook, metrics_path)
    return [*paths, metrics_path]


def render_page(outlook: Outlook, notices: Sequence[str]) -> str:
    """Return the page. NOTICES are what was odd about the store."""
    variants = tuple(unique(series.key.variant for series in outlook.series))
    embedded, left_out = downloads.embed(_data(outlook))
    return html.render(
        "history.html.j2",
        variants,
        (REGRESSION, IMPROVEMENT),
        outlook=outlook,
        hosts=unique(series.key.host for series in outlook.series),
        emulated=any(series.key.conditions.emulated for series in outlook.series),
        first=min((series.points[0].time for series in outlook.series), default=None),
        last=max((series.last.time for series in outlook.series), default=None),
        headlines=_headlines(outlook),
        notices=notices,
        failed=[render.failed_text(entry) for entry in outlook.failed],
        suspects=[f"{one.key.name}: {render.sentence(one)}" for one in outlook.with_verdict(SUSPECT)],
        table=_verdicts_table(outlook),
        trends=_trends(outlook, variants),
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


def _verdicts_table(outlook: Outlook) -> PageTable:
    # The conditions are below each picture: with them no sheet of paper would be wide enough.
    table = render.verdicts_table(outlook)
    return page_table("Verdict of each series", table.columns[:-1], table.rows, heads=3)


def _changes_table(outlook: Outlook) -> PageTable:
    columns: list[Column[tuple[Series, Change]]] = [
        Column("host", lambda row: row[0].key.host, Kind.WORDS),
        Column("operation", lambda row: row[0].key.operation, Kind.WORDS),
        Column("variant", lambda row: row[0].key.variant, Kind.WORDS),
        Column("since (UTC)", lambda row: f"{_first(*row).time:%Y-%m-%d %H:%M}", Kind.WORDS),
        Column("kernel", lambda row: _first(*row).kernel, Kind.WORDS),
        Column("from (s)", lambda row: f"{row[1].before_s:.3f}"),
        Column("to (s)", lambda row: f"{row[1].after_s:.3f}"),
        Column("change", lambda row: f"{row[1].percent:+.1f}%"),
        Column("p", lambda row: format_p(row[1].p_value)),
        Column("kind", lambda row: row[1].kind, Kind.WORDS),
    ]
    rows = [(series, change) for series in outlook.series for change in series.changes]
    return page_table("All changes of level", columns, rows, heads=3, newest=True)


def _first(series: Series, change: Change) -> Point:
    return series.points[change.at]


def _failures_table(outlook: Outlook) -> PageTable:
    columns: list[Column[Entry]] = [
        Column("started (UTC)", lambda entry: f"{entry.time:%Y-%m-%d %H:%M}", Kind.WORDS),
        Column("host", lambda entry: entry.host, Kind.WORDS),
        Column("variant", lambda entry: entry.variant, Kind.WORDS),
        Column("kernel", lambda entry: entry.kernel or NONE, Kind.WORDS),
        Column("reason", lambda entry: entry.failed or "", Kind.TEXT),
    ]
    return page_table("Failed runs, the newest first", columns, list(reversed(outlook.failures)), heads=3)


def _trends(outlook: Outlook, variants: tuple[str, ...]) -> list[Trend]:
    return [
        Trend(
            series.key.name,
            render.describe(series.key.conditions),
            series.verdict,
            (series.key.variant,),
            Markup(trend.draw(series, variants, f"trend{at}")),  # noqa: S704 - what is not ours was escaped as XML
            trend.is_shortened(series),
        )
        for at, series in enumerate(outlook.series)
    ]


def _data(outlook: Outlook) -> Iterator[downloads.Datum]:
    sheet = render.sheet(outlook)
    yield downloads.Datum(
        "verdicts.csv",
        "text/csv",
        to_csv(sheet),
        "the verdicts, unrounded",
        "hotplug-timer history check --format csv prints it",
    )
    yield downloads.Datum(
        SUMMARY,
        "application/json",
        to_json(sheet),
        "all of it for programs",
        "it is beside this page",
    )
