"""Printing a comparison: table, markdown, CSV, JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table

from hotplug_timer.analysis.compare import COUNT_NAMES, Comparison, CountRow, Row
from hotplug_timer.analysis.stats import TOO_FEW, Effect, Interval
from hotplug_timer.analysis.summary import comparison_entry, count_entry

#: Columns for pipes and files, where there is no width to fit.
PLAIN_WIDTH = 200
NONE = "-"


def print_notices(comparison: Comparison, stream: TextIO) -> None:
    """Print what to mind, one line each."""
    for text in comparison.notices:
        stream.write(f"hotplug-timer: note: {text}\n")
    for text in comparison.warnings:
        stream.write(f"hotplug-timer: warning: {text}\n")


def print_comparison(comparison: Comparison, style: str, stream: TextIO) -> None:
    """Print a comparison as "table", "markdown", "csv" or "json"."""
    if style == "table":
        _print_tables(comparison, stream)
    else:
        writers = {"markdown": to_markdown, "csv": to_csv, "json": to_json}
        stream.write(writers[style](comparison))


def seconds_header(comparison: Comparison) -> list[str]:
    """Return the headings of the seconds table; they say when seconds are emulated."""
    unit = "s, emulated" if comparison.emulated else "s"
    return [
        "operation",
        "variant",
        "n",
        f"average ({unit})",
        "decrease",
        f"median ({unit})",
        "median decrease, 95% interval",
        "p",
        "verdict",
    ]


def seconds_cells(row: Row, baseline: str) -> list[str]:
    """Return one row of the seconds table as text."""
    effect = row.effect
    cells = [row.operation, row.label, str(row.summary.n), f"{row.summary.mean:.3f}"]
    if effect is None:
        word = "baseline" if row.label == baseline else NONE
        return [*cells, NONE, f"{row.summary.median:.3f}", NONE, NONE, word]
    return [
        *cells,
        f"{effect.decrease_percent:.3f}%",
        f"{row.summary.median:.3f}",
        format_interval(effect.median_decrease_percent, effect.interval_percent),
        format_p(effect.p_value),
        verdict_text(effect, row),
    ]


def format_interval(value: float, interval: Interval | None) -> str:
    """Return a median decrease and its interval."""
    if interval is None:
        return f"{value:.1f}%"
    return f"{value:.1f}% ({interval.low:.1f} to {interval.high:.1f})"


def format_p(value: float) -> str:
    """Return a p-value with two digits that count."""
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


def verdict_text(effect: Effect, row: Row) -> str:
    """Return the verdict, and with too few samples what would be needed."""
    if effect.verdict != TOO_FEW:
        return effect.verdict
    return f"{TOO_FEW}: n = {row.summary.n} cannot go below p = {effect.min_p:.2g}"


def count_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the counts table as text; a range where counted iterations differ."""
    names = comparison.count_names
    header = ["operation", "variant", "n", *(COUNT_NAMES[name] for name in names)]
    return header, [_count_cells(row, names) for row in comparison.counts]


def _count_cells(row: CountRow, names: Sequence[str]) -> list[str]:
    n = max(len(values) for values in row.values.values())
    return [row.operation, row.label, str(n), *(_range(row.values.get(name)) for name in names)]


def to_markdown(comparison: Comparison) -> str:
    """Return both tables in GitHub's markdown."""
    parts = [_markdown(seconds_header(comparison), _seconds_rows(comparison))]
    if comparison.counts:
        parts.append("Per transition, counted with tracing on and never timed:\n")
        parts.append(_markdown(*count_table(comparison)))
    return "\n".join(parts)


def to_csv(comparison: Comparison) -> str:
    """Return one line per operation and variant, numbers unrounded; empty where there is none."""
    buffer = io.StringIO()
    entries = [_flat(comparison, row) for row in comparison.rows]
    if entries:
        writer = csv.DictWriter(buffer, list(entries[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(entries)
    return buffer.getvalue()


def to_json(comparison: Comparison) -> str:
    """Return the comparison as one JSON object."""
    return (
        json.dumps(
            {
                "baseline": comparison.baseline,
                "emulated": comparison.emulated,
                "cpus": comparison.shape.cpus,
                "comparisons": [comparison_entry(comparison, row) for row in comparison.rows],
                "counts": [count_entry(row) for row in comparison.counts],
                "warnings": list(comparison.warnings),
                "notices": list(comparison.notices),
            },
            indent=2,
        )
        + "\n"
    )


def _print_tables(comparison: Comparison, stream: TextIO) -> None:
    tty = stream.isatty()
    console = Console(file=stream, width=None if tty else PLAIN_WIDTH, highlight=False)
    shape = comparison.shape
    seconds = "emulated CPUs: seconds are not hardware's" if comparison.emulated else "hardware seconds"
    console.print(
        f"{shape.machine}, {shape.cpus} CPUs ({shape.cores} cores x SMT{shape.threads_per_core}),"
        f" {seconds}; lower is better",
        markup=False,
    )
    console.print(_table(seconds_header(comparison), _seconds_rows(comparison), tty))
    if comparison.counts:
        console.print("\nper transition, counted with tracing on and never timed", markup=False)
        console.print(_table(*count_table(comparison), tty))


def _seconds_rows(comparison: Comparison) -> list[list[str]]:
    return [seconds_cells(row, comparison.baseline) for row in comparison.rows]


def _table(header: list[str], rows: list[list[str]], tty: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD if tty else None, pad_edge=False, header_style="bold" if tty else "")
    numeric = {at for at, name in enumerate(header) if name not in ("operation", "variant", "verdict")}
    for at, name in enumerate(header):
        table.add_column(name, justify="right" if at in numeric else "left")
    for row in rows:
        style = {"faster": "green", "slower": "red"}.get(row[-1], "") if tty else ""
        table.add_row(*row, style=style)
    return table


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _flat(comparison: Comparison, row: Row) -> dict[str, object]:
    entry = comparison_entry(comparison, row)
    interval = entry.pop("interval_percent")
    low, high = interval if isinstance(interval, list) else (None, None)
    counts = comparison.count_row(row.operation, row.label)
    return {
        **entry,
        "interval_low_percent": low,
        "interval_high_percent": high,
        **{name: counts.typical(name) if counts else None for name in comparison.count_names},
    }


def _range(values: tuple[int, ...] | None) -> str:
    if not values:
        return NONE
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"
