"""report.html, one self-contained file, and summary.json beside it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from hotplug_timer import __version__
from hotplug_timer.analysis import plot, render
from hotplug_timer.analysis.compare import Comparison
from hotplug_timer.analysis.reader import Dataset
from hotplug_timer.analysis.stats import Effect
from hotplug_timer.analysis.summary import headline_label, summarize
from hotplug_timer.errors import ExitCode, ToolError
from hotplug_timer.target.text import printable


@dataclass(frozen=True)
class Figure:
    """One operation's figure. `svg` is our own drawing and goes into the page as it is."""

    operation: str
    svg: Markup
    description: str
    thinned: bool


@dataclass(frozen=True)
class Headline:
    """One operation's result in a line."""

    operation: str
    before: str
    after: str
    speedup: str
    verdict: str


@dataclass(frozen=True)
class Download:
    """A file embedded in the page."""

    name: str
    uri: str


def write_report(data: Dataset, comparison: Comparison, base: str, directory: Path) -> tuple[Path, Path]:
    """Write report.html and summary.json; ToolError (ENVIRONMENT) when that fails. Returns both paths."""
    summary = json.dumps(summarize(data, comparison, base), indent=2) + "\n"
    page = render_page(data, comparison, base, summary)
    report_path, summary_path = directory / "report.html", directory / "summary.json"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        report_path.write_text(page, "utf-8")
        summary_path.write_text(summary, "utf-8")
    except OSError as error:
        raise ToolError(
            f"cannot write the report to {directory}: {error.strerror}",
            "name another --output-dir",
            ExitCode.ENVIRONMENT,
        ) from error
    return report_path, summary_path


def render_page(data: Dataset, comparison: Comparison, base: str, summary: str) -> str:
    """Return the page."""
    environment = Environment(
        autoescape=True, finalize=_shown, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    count_header, count_rows = render.count_table(comparison)
    source = files("hotplug_timer.analysis").joinpath("templates/report.html.j2").read_text("utf-8")
    return environment.from_string(source).render(
        base=base,
        version=__version__,
        comparison=comparison,
        headlines=_headlines(comparison),
        headline_label=headline_label(comparison),
        figures=_figures(data, comparison),
        series={label: plot.series_variable(comparison.labels, label) for label in comparison.labels},
        seconds_header=render.seconds_header(comparison),
        seconds_rows=[render.seconds_cells(row, comparison.baseline) for row in comparison.rows],
        count_header=count_header,
        count_rows=count_rows,
        method=render.method_text(comparison),
        raw_embedded=data.raw is not None,
        runs=data.runs,
        downloads=[
            *([_download("results.jsonl", "application/jsonl", data.raw)] if data.raw is not None else []),
            _download("summary.json", "application/json", summary),
            _download("comparison.csv", "text/csv", render.to_csv(comparison)),
        ],
    )


def _shown(value: object) -> object:
    """Return what goes into the page for a value; it is escaped after this, unless it is our own markup."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _headlines(comparison: Comparison) -> list[Headline]:
    label = headline_label(comparison)
    headlines = []
    for operation in comparison.operations:
        row = comparison.row(operation, label) if label else None
        base = comparison.row(operation, comparison.baseline)
        if row and row.effect and base:
            headlines.append(
                Headline(
                    operation,
                    f"{base.summary.median:.2f} s",
                    f"{row.summary.median:.2f} s",
                    _times(row.effect),
                    render.verdict_text(row.effect, row),
                )
            )
    return headlines


def _times(effect: Effect) -> str:
    return f"{effect.speedup:.{1 if effect.speedup >= 2 else 2}f}x"


def _figures(data: Dataset, comparison: Comparison) -> list[Figure]:
    figures = []
    for operation in comparison.operations:
        blocks = plot.blocks_of(data.runs, operation)
        if blocks:
            svg = plot.draw(blocks, comparison.labels, comparison.emulated)
            # Labels reach the SVG through matplotlib, which escapes them.
            figures.append(
                Figure(
                    operation,
                    Markup(svg),  # noqa: S704
                    plot.describe(blocks, operation, comparison.emulated),
                    plot.is_thinned(blocks),
                )
            )
    return figures


def _download(name: str, mime: str, text: str) -> Download:
    encoded = base64.b64encode(text.encode()).decode()
    return Download(name, f"data:{mime};base64,{encoded}")
