"""The tables of a page: which there are in a report, and what a page has to know of any table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from hotplug_common.tables import NONE, Column, Kind, Table
from hotplug_timer.compare import text as compare_text
from hotplug_timer.compare.comparison import Comparison
from hotplug_timer.reader import Run
from hotplug_timer.report.samples import Block
from hotplug_timer.trace.model import Cells

#: More rows than this are only counted: a page has an end.
MAX_ROWS = 200
#: Samples of a block that are listed one by one.
MAX_LISTED = 40
VARIANT = "variant"

Row = TypeVar("Row")


@dataclass(frozen=True)
class PageTable:
    """A table as the template takes it: the first HEADS cells of a row say what it is about.

    Columns in `words` hold words, those in `texts` long texts that wrap, all others numbers.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    heads: int
    words: Collection[str]
    texts: Collection[str]
    left_out: int


def page_table(
    caption: str, columns: Sequence[Column[Row]], rows: Sequence[Row], heads: int = 1, *, newest: bool = False
) -> PageTable:
    """Return a table of rows, the first `MAX_ROWS` of them, or the last where those are the NEWEST."""
    shown = rows[-MAX_ROWS:] if newest else rows[:MAX_ROWS]
    return PageTable(
        caption,
        [column.heading for column in columns],
        [[column.show(row) for column in columns] for row in shown],
        heads,
        words={column.heading for column in columns if column.kind is Kind.WORDS},
        texts={column.heading for column in columns if column.kind is Kind.TEXT},
        left_out=len(rows) - len(shown),
    )


def seconds_table(comparison: Comparison) -> PageTable:
    """Return what `compare` prints about seconds."""
    table = compare_text.seconds_table(comparison)
    return page_table("Seconds of timed transitions", table.columns, table.rows, heads=2)


def boots_table(comparison: Comparison) -> PageTable:
    """Return what `compare` prints about how sure it is."""
    table = compare_text.boots_table(comparison)
    return page_table(f"{table.heading[:1].upper()}{table.heading[1:]}", table.columns, table.rows, heads=2)


def counts_table(comparison: Comparison) -> PageTable:
    """Return what `compare` prints about counts."""
    table = compare_text.counts_table(comparison)
    return page_table("Counts per transition", table.columns, table.rows, heads=2)


def samples_table(blocks: Sequence[Block], operation: str) -> PageTable:
    """Return the samples of an operation, a row for each block."""
    return page_table(
        f"Samples of {operation} by block, in seconds",
        (
            Column("block", lambda item: str(item[0])),
            Column(VARIANT, lambda item: item[1].variant, Kind.WORDS),
            Column("n", lambda item: str(len(item[1].seconds))),
            Column("fastest", lambda item: f"{item[1].seconds.min():.3f}"),
            Column("median", lambda item: f"{np.median(item[1].seconds):.3f}"),
            Column("slowest", lambda item: f"{item[1].seconds.max():.3f}"),
            Column("samples in time order", lambda item: _listed(item[1]), Kind.TEXT),
        ),
        list(enumerate(blocks, start=1)),
        heads=2,
    )


def _listed(block: Block) -> str:
    shown = "  ".join(f"{seconds:.3f}" for seconds in block.seconds[:MAX_LISTED])
    more = len(block.seconds) - MAX_LISTED
    return f"{shown}  and {more} more" if more > 0 else shown


def blocks_table(runs: Sequence[Run]) -> PageTable:
    """Return the runs, one boot each."""
    return page_table(
        "Blocks in time order",
        (
            Column("block", lambda item: str(item[0])),
            Column(VARIANT, lambda item: item[1].variant, Kind.WORDS),
            Column("started (UTC)", lambda item: item[1].started[:19].replace("T", " "), Kind.WORDS),
            Column("host", lambda item: item[1].host.hostname, Kind.WORDS),
            Column("kernel", lambda item: item[1].host.kernel_release, Kind.WORDS),
            Column("booted by", lambda item: item[1].host.boot_method, Kind.WORDS),
            Column("boot id", lambda item: item[1].host.boot_id[:8], Kind.WORDS),
            Column("ended", lambda item: item[1].outcome or "end missing", Kind.WORDS),
        ),
        list(enumerate(runs, start=1)),
        heads=2,
    )


def hosts_table(runs: Sequence[Run]) -> PageTable:
    """Return the hosts the runs were on."""
    columns: list[Column[Run]] = [
        Column("host", lambda run: run.host.hostname, Kind.WORDS),
        Column("machine", lambda run: run.shape.machine, Kind.WORDS),
        Column("CPU model", lambda run: run.host.cpu_model, Kind.TEXT),
        Column("CPUs present", lambda run: run.shape.present, Kind.TEXT),
        Column(
            "CPUs with SMT on",
            lambda run: f"{run.shape.cpus} ({run.shape.cores} cores x SMT{run.shape.threads_per_core})",
            Kind.WORDS,
        ),
        Column(
            "seconds", lambda run: f"of {'emulated CPUs' if run.host.emulated else 'hardware'}", Kind.WORDS
        ),
    ]
    return _distinct("Hosts", columns, runs)


def kernels_table(runs: Sequence[Run]) -> PageTable:
    """Return the kernels the runs were under."""
    columns: list[Column[Run]] = [
        Column(VARIANT, lambda run: run.variant, Kind.WORDS),
        Column("kernel", lambda run: run.host.kernel_release, Kind.WORDS),
        Column("version", lambda run: run.host.kernel_version, Kind.TEXT),
        Column("command line", lambda run: run.host.cmdline, Kind.TEXT),
        Column(
            "RCU settings",
            lambda run: ", ".join(f"{name}={value}" for name, value in sorted(run.rcu.items())),
            Kind.TEXT,
        ),
    ]
    return _distinct("Kernels", columns, runs)


def methods_table(runs: Sequence[Run]) -> PageTable:
    """Return how the runs measured."""
    columns: list[Column[Run]] = [
        Column(VARIANT, lambda run: run.variant, Kind.WORDS),
        Column("operations", lambda run: " ".join(run.operations), Kind.TEXT),
        Column("switched by", _drivers, Kind.WORDS),
        Column("warm-up", lambda run: str(run.conditions.warmup)),
        Column("settle (s)", lambda run: f"{run.conditions.settle_s:g}"),
    ]
    if any(run.conditions.prepare or run.conditions.cleanup for run in runs):
        columns += [
            Column("before each", lambda run: run.conditions.prepare or NONE, Kind.TEXT),
            Column("after each", lambda run: run.conditions.cleanup or NONE, Kind.TEXT),
        ]
    return _distinct("How it was measured", columns, runs)


def _drivers(run: Run) -> str:
    """Return what did the switches and by which path; what was asked for, where none came to its end."""
    kinds = [kind for kind in run.iterations.kinds() if kind.status == "ok" and kind.driver]
    found = dict.fromkeys(f"{kind.driver} ({kind.path})" for kind in kinds)
    return ", ".join(found) or run.conditions.via


def _distinct(caption: str, columns: Sequence[Column[Run]], runs: Iterable[Run]) -> PageTable:
    """Return the table of runs, of which those with the same cells are one row."""
    found: dict[tuple[str, ...], Run] = {}
    for run in runs:
        found.setdefault(tuple(column.show(run) for column in columns), run)
    return page_table(caption, columns, list(found.values()))


def trace_table(table: Table[Cells], name: str) -> PageTable:
    """Return a table of `trace` for the page; NAME says what it is about."""
    return page_table(f"{table.heading}: {name}", table.columns, table.rows)
