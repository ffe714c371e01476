"""Printing the table: for a terminal, as Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console

from hotplug_host.operations import DIRECTIONS
from hotplug_host.text import printable
from hotplug_timer.compare.text import (
    NONE,
    PLAIN_WIDTH,
    flat_entry,
    markdown_table,
    markdown_text,
    terminal_table,
    write_files,
)
from hotplug_timer.predict.render import significant
from hotplug_timer.rcu_variants.table import Line, Table
from hotplug_timer.rcu_variants.variants import LINK, PUBLISHED_N

SCHEMA = "hotplug-timer/rcu-variants/1"
NAME = "rcu-variants"
WORDS = ("variant", "verdict")
#: Count name to its column.
COUNTED = {
    "synchronize_rcu": "waits",
    "synchronize_rcu_expedited": "expedited",
    "stop_machine": "rendezvous",
    "domain_rebuild": "rebuilds",
}


def print_table(table: Table, style: str, stream: TextIO) -> None:
    """Print as "table", "markdown", "csv" or "json"."""
    if style == "table":
        _print_terminal(table, stream)
    else:
        stream.write({"markdown": to_markdown, "csv": to_csv, "json": to_json}[style](table))


def write_table(table: Table, directory: Path) -> tuple[Path, ...]:
    """Write Markdown, JSON and CSV, and return their paths; ToolError (ENVIRONMENT) when that fails."""
    texts = {".md": to_markdown(table), ".json": to_json(table), ".csv": to_csv(table)}
    return write_files(directory, {f"{NAME}{suffix}": text for suffix, text in texts.items()})


def to_markdown(table: Table) -> str:
    """Return the tables of both directions, with their conditions, in GitHub's Markdown."""
    parts = [f"{markdown_text(conditions(table))}\n"]
    for direction in DIRECTIONS:
        parts.append(f"**{_title(table, direction)}**\n")
        parts.append(markdown_table(*_cells(table, direction)))
    parts.append(f"{markdown_text(_remarks(table))}\n")
    doubts = [*table.comparison.warnings, *table.comparison.notices]
    parts += ["To mind:\n", "".join(f"- {markdown_text(text)}\n" for text in doubts)] if doubts else []
    return "\n".join(parts)


def to_csv(table: Table) -> str:
    """Return one line per variant and direction, numbers unrounded."""
    buffer = io.StringIO()
    entries = [_entry(table, line) for line in table.lines]
    writer = csv.DictWriter(buffer, list(entries[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(entries)
    return buffer.getvalue()


def to_json(table: Table) -> str:
    """Return all of it as one JSON object."""
    shape, source = table.comparison.shape, table.source
    content = {
        "schema": SCHEMA,
        "machine": shape.machine,
        "cpu_model": table.cpu_model,
        "hostname": table.hostname,
        "emulated": table.comparison.emulated,
        "cpus": shape.cpus,
        "cores": shape.cores,
        "threads_per_core": shape.threads_per_core,
        "switched": table.switched,
        "boot_method": table.boot_method,
        "published": {
            "link": LINK,
            "kernel": source.kernel,
            "system": source.system,
            "cpus": source.cpus,
            "switched": source.toggled,
            "n": PUBLISHED_N,
        },
        "rows": [_entry(table, line) for line in table.lines],
        "warnings": list(table.comparison.warnings),
        "notices": list(table.comparison.notices),
    }
    return json.dumps(content, indent=2) + "\n"


def conditions(table: Table) -> str:
    """Say what was measured, on what, and what stands next to it."""
    shape, source = table.comparison.shape, table.source
    emulated = ", emulated: its seconds are not hardware's" if table.comparison.emulated else ""
    return (
        f"Measured: {table.switched} of {shape.cpus} CPUs offline and online one by one, {shape.cores} cores"
        f" x SMT{shape.threads_per_core}, {table.cpu_model}{emulated}; all booted by {table.boot_method}."
        f" Published: {source.toggled} of {source.cpus} CPUs, {source.system}, {source.kernel}, averages of"
        f" {PUBLISHED_N}, {LINK}"
    )


def _title(table: Table, direction: str) -> str:
    way = "offline" if direction == "off" else "online"
    return f"{table.switched} CPUs {way}"


def _remarks(table: Table) -> str:
    """Say what the rows are, under which kernels and how many boots, and what was counted."""
    rows = "; ".join(
        f"({line.variant.number}) {line.variant.title}: {line.kernel}, booted {line.boots}x"
        for line in table.of("off")
    )
    return (
        f"Rows: {rows}. Counts are per switch of all {table.switched} CPUs, never timed: waits are calls of"
        " synchronize_rcu(); expedited those of synchronize_rcu_expedited(), which is what every wait becomes"
        " with rcu_expedited."
    )


def _cells(table: Table, direction: str) -> tuple[list[str], list[list[str]]]:
    counted = [name for name in table.comparison.count_names if name in COUNTED]
    header = [
        "",
        "variant",
        f"average ({'s, emulated' if table.comparison.emulated else 's'})",
        "min to max",
        "n",
        "decrease",
        "verdict",
        *(COUNTED[name] for name in counted),
        "published (s)",
        "published decrease",
    ]
    return header, [_line_cells(line, counted) for line in table.of(direction)]


def _line_cells(line: Line, counted: Sequence[str]) -> list[str]:
    summary, effect = line.row.summary, line.row.effect
    return [
        f"({line.variant.number})",
        line.variant.name,
        significant(summary.mean),
        f"{significant(summary.minimum)} to {significant(summary.maximum)}",
        str(summary.n),
        _percent(effect.decrease_percent if effect else None),
        effect.verdict if effect else "baseline",
        *(_count(line, name) for name in counted),
        str(line.published.seconds),
        _percent(line.published.decrease_percent),
    ]


def _percent(value: float | None) -> str:
    return "baseline" if value is None else f"{value:.1f}%"


def _count(line: Line, name: str) -> str:
    value = line.counts.typical(name) if line.counts else None
    return NONE if value is None else str(value)


def _entry(table: Table, line: Line) -> dict[str, object]:
    """Return one flat record, numbers unrounded."""
    return {
        "direction": line.direction,
        "row": line.variant.number,
        "kernel": printable(line.kernel),
        "rcu_expedited": line.variant.expedited,
        "boots": line.boots,
        **flat_entry(table.comparison, line.row),
        "published_mean_s": line.published.seconds,
        "published_decrease_percent": line.published.decrease_percent,
    }


def _print_terminal(table: Table, stream: TextIO) -> None:
    tty = stream.isatty()
    console = Console(
        file=stream, width=None if tty else PLAIN_WIDTH, highlight=False, markup=False, emoji=False
    )
    console.print(printable(conditions(table)), soft_wrap=True)
    for direction in DIRECTIONS:
        console.print(f"\n{_title(table, direction)}")
        console.print(terminal_table(*_cells(table, direction), tty, WORDS))
    console.print(f"\n{printable(_remarks(table))}", soft_wrap=True)
