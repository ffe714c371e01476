"""The page: everything the template shows, put together from results and traces."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from hotplug_common.boots import Effect
from hotplug_common.files import write_files
from hotplug_common.tables import to_csv
from hotplug_host.records import CLOCK_CHECK
from hotplug_host.timing.tracing import COUNTS, GRAPH, OFFCPU, STATES
from hotplug_timer.compare import text as compare_text
from hotplug_timer.compare.comparison import Comparison, Row
from hotplug_timer.compare.summary import headline_variant, summarize
from hotplug_timer.reader import Dataset, Run
from hotplug_timer.report import downloads, html, samples, states, tables
from hotplug_timer.report.text import short_seconds
from hotplug_timer.report.traces import Traced, Traces
from hotplug_timer.trace.flame import to_folded, to_inline
from hotplug_timer.trace.states import States

#: Rows of a trace's table.
TOP = 10


@dataclass(frozen=True)
class Headline:
    """One operation's result, to be seen from afar."""

    operation: str
    figure: str
    line: str
    detail: str
    verdict: str


@dataclass(frozen=True)
class Picture:
    """A picture and its table. `svg` is our own drawing and goes into the page as it is."""

    name: str
    svg: Markup
    variants: tuple[str, ...]
    tables: tuple[tables.PageTable, ...]
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Samples(Picture):
    """Every sample of an operation."""

    thinned: bool = False
    ruled: bool = True


def write_report(
    data: Dataset, comparison: Comparison, traces: Traces, line: str, directory: Path
) -> tuple[Path, Path]:
    """Write report.html and summary.json; ToolError (ENVIRONMENT) when that fails. Returns both paths."""
    summary = json.dumps(summarize(data, comparison, line), indent=2) + "\n"
    page = render_page(data, comparison, traces, line, summary)
    report_path, summary_path = write_files(
        directory, {"report.html": page, "summary.json": summary}, "report"
    )
    return report_path, summary_path


def render_page(data: Dataset, comparison: Comparison, traces: Traces, line: str, summary: str) -> str:
    """Return the page."""
    embedded, left_out = downloads.embed(_data(data, comparison, traces, summary))
    return html.render(
        "report.html.j2",
        comparison.variants,
        ("faster", "slower"),
        line=line,
        subject=_subject(data.runs),
        comparison=comparison,
        shape=comparison.shape,
        runs=data.runs,
        hosts=list(dict.fromkeys(run.host.hostname for run in data.runs)),
        headlines=_headlines(comparison),
        seconds=tables.seconds_table(comparison),
        boots=tables.boots_table(comparison),
        method=compare_text.method_text(comparison),
        samples=_samples(data, comparison),
        counts=tables.counts_table(comparison),
        callers=[_icicle(one, at) for at, one in enumerate(traces.of(COUNTS))],
        states=_states(traces, comparison),
        offcpu=[_icicle(one, at) for at, one in enumerate(traces.of(OFFCPU))],
        graph=[_icicle(one, at) for at, one in enumerate(traces.of(GRAPH))],
        trace_notices=traces.notices,
        trace_command=_trace_command(comparison),
        about=(
            tables.hosts_table(data.runs),
            tables.kernels_table(data.runs),
            tables.methods_table(data.runs),
            tables.blocks_table(data.runs),
        ),
        downloads=embedded,
        not_embedded=left_out,
    )


def _subject(runs: Sequence[Run]) -> str:
    """Return what was measured."""
    clocks = all(run.tool == CLOCK_CHECK for run in runs)
    return "Clock checks" if clocks else "SMT switch times"


def _headlines(comparison: Comparison) -> list[Headline]:
    variant = headline_variant(comparison)
    found = []
    for operation in comparison.operations:
        baseline = comparison.row(operation, comparison.baseline)
        row = comparison.row(operation, variant) if variant else None
        if row and row.effect and baseline:
            found.append(_effect_headline(baseline, row, row.effect))
        elif variant is None and (only := comparison.row(operation, comparison.variants[0])):
            found.append(_sample_headline(only))
    return found


def _effect_headline(baseline: Row, row: Row, effect: Effect) -> Headline:
    before, after = short_seconds(baseline.summary.median), short_seconds(row.summary.median)
    return Headline(
        row.operation,
        _times(effect),
        f"{baseline.variant} {before} s → {row.variant} {after} s",
        f"median decrease {compare_text.decrease_text(effect)}",
        compare_text.verdict_text(effect, row),
    )


def _sample_headline(row: Row) -> Headline:
    low, high = short_seconds(row.summary.minimum), short_seconds(row.summary.maximum)
    figure = f"{short_seconds(row.summary.median)} s"
    return Headline(row.operation, figure, f"{row.variant}, median", f"{low} to {high} s", "")


def _times(effect: Effect) -> str:
    return f"{effect.speedup:.{1 if effect.speedup >= 2 else 2}f}×"  # noqa: RUF001 - times


def _samples(data: Dataset, comparison: Comparison) -> list[Samples]:
    found = []
    for at, operation in enumerate(comparison.operations):
        blocks = samples.blocks_of(data.runs, operation)
        if blocks:
            svg = samples.draw(blocks, comparison.variants, operation, comparison.emulated, f"samples{at}")
            found.append(
                Samples(
                    operation,
                    Markup(svg),  # noqa: S704 - what is not ours in it was escaped as XML
                    tuple(dict.fromkeys(block.variant for block in blocks)),
                    (tables.samples_table(blocks, operation),),
                    thinned=samples.is_thinned(blocks),
                    ruled=samples.is_ruled(blocks),
                )
            )
    return found


def _states(traces: Traces, comparison: Comparison) -> list[Picture]:
    """Return a picture for each operation with all variants in it, and for each trace that no run names."""
    groups: dict[str, list[Traced]] = {}
    for one in traces.of(STATES):
        groups.setdefault(one.subject.operation or one.subject.name, []).append(one)
    return [
        _states_picture(name, group, comparison, f"states{at}")
        for at, (name, group) in enumerate(groups.items())
    ]


def _states_picture(name: str, group: Sequence[Traced], comparison: Comparison, key: str) -> Picture:
    times = [
        states.Times(one.subject.variant or name, len(one.files), one.analysis.by_state())
        for one in group
        if isinstance(one.analysis, States)
    ]
    variants = tuple(dict.fromkeys((*comparison.variants, *(one.variant for one in times))))
    title = f"Time per state of {name}"
    table = tables.page_table(
        f"{title}, per transition", states.columns(times), states.longest(times, states.LISTED), heads=2
    )
    return Picture(
        name,
        Markup(states.draw(times, variants, title, comparison.emulated, key)),  # noqa: S704 - as above
        tuple(one.variant for one in times if one.variant in comparison.variants),
        (table,),
        tuple(f"{one.subject.name}: {note}" for one in group for note in one.notes),
        tuple(path.name for one in group for path in one.files),
    )


def _icicle(traced: Traced, at: int) -> Picture:
    """Return the stacks of a trace as an icicle, with the tables that `trace` prints."""
    analysis, subject = traced.analysis, traced.subject
    title = f"{analysis.title}: {subject.name}"
    svg = to_inline(analysis.folded(), title, analysis.unit, f"{subject.mode}{at}")
    return Picture(
        subject.name,
        Markup(svg),  # noqa: S704 - what is not ours in it was escaped as XML
        (subject.variant,) if subject.variant else (),
        tuple(tables.trace_table(table, subject.name) for table in analysis.tables(TOP)),
        traced.notes,
        tuple(path.name for path in traced.files),
    )


def _data(data: Dataset, comparison: Comparison, traces: Traces, summary: str) -> Iterator[downloads.Datum]:
    """Yield what the page offers to save, the most important first."""
    table = to_csv(compare_text.sheet(comparison))
    yield downloads.Datum(
        "comparison.csv",
        "text/csv",
        table,
        "the table, unrounded",
        "hotplug-timer compare --format csv prints it",
    )
    yield downloads.Datum(
        "summary.json", "application/json", summary, "all figures for programs", "it is beside this page"
    )
    yield downloads.Datum(
        "results.jsonl",
        "application/jsonl",
        data.raw,
        "the result files, joined",
        "keep the files themselves",
    )
    for one in traces.found:
        yield downloads.Datum(
            f"{one.files[0].stem}.folded",
            "text/plain",
            to_folded(one.analysis.folded()),
            "all stacks, as flamegraph.pl reads them",
            "hotplug-timer trace --folded writes it",
        )


def _trace_command(comparison: Comparison) -> str:
    """Return the command that records what the sections of traces show."""
    variant = comparison.variants[-1]
    words = ["hotplug-timer", "run", *comparison.operations, "--variant", variant, "--iterations", "5"]
    words += ["--output", f"{variant}-traced.jsonl", "--trace", STATES, "--trace", OFFCPU]
    return shlex.join(words)
