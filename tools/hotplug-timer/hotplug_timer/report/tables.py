"""The report's tables, as the page shows them: headings, cells and what kind of cells they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hotplug_timer.compare import text as render
from hotplug_timer.compare.comparison import Comparison
from hotplug_timer.reader import Run
from hotplug_timer.report.samples import Block
from hotplug_timer.trace import render as trace_render
from hotplug_timer.trace.model import Table as TraceTable

#: More rows than this are only counted: a page has an end.
MAX_ROWS = 200
#: Samples of a block that are listed one by one.
MAX_LISTED = 40
VARIANT = "variant"


@dataclass(frozen=True)
class Table:
    """A table: the first HEADS cells of a row say what it is about.

    Columns in `words` hold words, those in `texts` long texts that wrap, all others numbers.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    heads: int = 1
    words: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    left_out: int = 0


def seconds_table(comparison: Comparison) -> Table:
    """Return what `compare` prints about seconds."""
    return Table(
        "Seconds of timed transitions",
        render.seconds_header(comparison),
        [render.seconds_cells(row, comparison.baseline) for row in comparison.rows],
        heads=2,
        words=frozenset(render.WORDS),
    )


def counts_table(comparison: Comparison) -> Table:
    """Return what `compare` prints about counts."""
    header, rows = render.count_table(comparison)
    return Table("Counts per transition", header, rows, heads=2, words=frozenset(render.WORDS))


def samples_table(blocks: Sequence[Block], operation: str) -> Table:
    """Return the samples of an operation, a row for each block."""
    rows = [
        (
            str(number),
            block.label,
            str(len(block.seconds)),
            f"{block.seconds.min():.3f}",
            f"{np.median(block.seconds):.3f}",
            f"{block.seconds.max():.3f}",
            _listed(block),
        )
        for number, block in enumerate(blocks[:MAX_ROWS], start=1)
    ]
    return Table(
        f"Samples of {operation} by block, in seconds",
        ("block", VARIANT, "n", "fastest", "median", "slowest", "samples in time order"),
        rows,
        heads=2,
        words=frozenset({VARIANT}),
        texts=frozenset({"samples in time order"}),
        left_out=max(len(blocks) - MAX_ROWS, 0),
    )


def _listed(block: Block) -> str:
    shown = "  ".join(f"{seconds:.3f}" for seconds in block.seconds[:MAX_LISTED])
    more = len(block.seconds) - MAX_LISTED
    return f"{shown}  and {more} more" if more > 0 else shown


def blocks_table(runs: Sequence[Run]) -> Table:
    """Return the runs, one boot each."""
    rows = [
        (
            str(number),
            run.label,
            run.started[:19].replace("T", " "),
            run.host.hostname,
            run.host.kernel_release,
            run.host.boot_method,
            run.host.boot_id[:8],
            run.outcome or "end missing",
        )
        for number, run in enumerate(runs[:MAX_ROWS], start=1)
    ]
    columns = ("block", VARIANT, "started (UTC)", "host", "kernel", "booted by", "boot id", "ended")
    return Table(
        "Blocks in time order",
        columns,
        rows,
        heads=2,
        words=frozenset(columns[1:]),
        left_out=max(len(runs) - MAX_ROWS, 0),
    )


def hosts_table(runs: Sequence[Run]) -> Table:
    """Return the hosts the runs were on."""
    columns = ("host", "machine", "CPU model", "CPUs present", "CPUs with SMT on", "seconds")
    rows = (
        (
            run.host.hostname,
            run.shape.machine,
            run.host.cpu_model,
            run.shape.present,
            f"{run.shape.cpus} ({run.shape.cores} cores x SMT{run.shape.threads_per_core})",
            "of emulated CPUs" if run.host.emulated else "of hardware",
        )
        for run in runs
    )
    return _distinct("Hosts", columns, rows, texts=("CPU model", "CPUs present"))


def kernels_table(runs: Sequence[Run]) -> Table:
    """Return the kernels the runs were under."""
    columns = (VARIANT, "kernel", "version", "command line", "RCU settings")
    rows = (
        (
            run.label,
            run.host.kernel_release,
            run.host.kernel_version,
            run.host.cmdline,
            ", ".join(f"{name}={value}" for name, value in sorted(run.rcu.items())),
        )
        for run in runs
    )
    return _distinct("Kernels", columns, rows, texts=("version", "command line", "RCU settings"))


def methods_table(runs: Sequence[Run]) -> Table:
    """Return how the runs measured."""
    columns = (VARIANT, "operations", "switched by", "warm-up", "settle (s)", "before each", "after each")
    hooks = any(run.conditions.prepare or run.conditions.cleanup for run in runs)
    used = len(columns) if hooks else len(columns) - 2
    rows = (
        (
            run.label,
            " ".join(run.operations),
            _drivers(run),
            str(run.conditions.warmup),
            f"{run.conditions.settle_s:g}",
            run.conditions.prepare or "-",
            run.conditions.cleanup or "-",
        )[:used]
        for run in runs
    )
    return _distinct(
        "How it was measured",
        columns[:used],
        rows,
        texts=("operations", "before each", "after each"),
        numbers=("warm-up", "settle (s)"),
    )


def _drivers(run: Run) -> str:
    """Return what did the switches and by which path; what was asked for, where none came to its end."""
    kinds = [kind for kind in run.iterations.kinds() if kind.status == "ok" and kind.driver]
    found = dict.fromkeys(f"{kind.driver} ({kind.path})" for kind in kinds)
    return ", ".join(found) or run.conditions.via


def _distinct(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    texts: Iterable[str],
    numbers: Iterable[str] = (),
) -> Table:
    """Return a table of words without repeated rows."""
    found = list(dict.fromkeys(map(tuple, rows)))
    return Table(
        caption,
        columns,
        found[:MAX_ROWS],
        words=frozenset(columns) - frozenset(numbers) - frozenset(texts),
        texts=frozenset(texts),
        left_out=max(len(found) - MAX_ROWS, 0),
    )


def trace_table(table: TraceTable, name: str, texts: Iterable[str] = ()) -> Table:
    """Return a table of `trace` for the page; NAME says what it is about."""
    header, rows = trace_render.texts(table)
    return Table(
        f"{table.heading}: {name}", header, rows, words=table.words - frozenset(texts), texts=frozenset(texts)
    )
