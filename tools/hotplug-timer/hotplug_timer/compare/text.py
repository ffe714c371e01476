"""Printing a comparison: table, markdown, CSV, JSON, JUnit."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table

from hotplug_common.stats import SLOWER, TOO_FEW, Effect, Interval
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.text import printable
from hotplug_timer.compare import junit
from hotplug_timer.compare.comparison import COUNT_NAMES, Comparison, CountRow, Row
from hotplug_timer.compare.summary import comparison_entry, count_entry

#: Columns for pipes and files, where there is no width to fit.
PLAIN_WIDTH = 200
NONE = "-"
#: Columns that hold words, not numbers.
WORDS = ("operation", "variant", "verdict")
JUNIT_SUITE = "hotplug-timer compare"
#: What is not simply passed.
JUNIT_OUTCOMES = {SLOWER: junit.Outcome.FAILED, TOO_FEW: junit.Outcome.SKIPPED}
#: The colour of a row on a terminal, by its verdict.
STYLES = {"faster": "green", "improvement": "green", "slower": "red", "regression": "red"}
#: What Markdown, or the HTML that it becomes, would read as more than text.
MARKDOWN_SPECIAL = frozenset("|<>&`*[]\\~!")


def print_notices(comparison: Comparison, stream: TextIO) -> None:
    """Print what to mind, one line each."""
    print_lines("note", comparison.notices, stream)
    print_lines("warning", comparison.warnings, stream)


def print_lines(kind: str, texts: Iterable[str], stream: TextIO) -> None:
    """Print "note" or "warning" lines."""
    for text in texts:
        stream.write(f"hotplug-timer: {kind}: {printable(text)}\n")


def print_comparison(comparison: Comparison, style: str, stream: TextIO) -> None:
    """Print a comparison as "table", "markdown", "csv", "json" or "junit"."""
    if style == "table":
        _print_tables(comparison, stream)
    else:
        writers = {"markdown": to_markdown, "csv": to_csv, "json": to_json, "junit": to_junit}
        stream.write(writers[style](comparison))


def seconds_header(comparison: Comparison) -> list[str]:
    """Return the headings of the seconds table; they say when seconds are emulated."""
    mixed = len({row.emulated for row in comparison.rows}) > 1
    unit = "s, some emulated" if mixed else "s, emulated" if comparison.emulated else "s"
    return [
        "operation",
        "variant",
        "n",
        f"average ({unit})",
        "decrease",
        f"median ({unit})",
        "median decrease, 95% interval",
        "p, Holm's" if comparison.adjusted else "p",
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
        format_p(effect.p_adjusted),
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
    return f"{TOO_FEW}: n = {row.summary.n} cannot go below p = {effect.min_p_adjusted:.2g}"


def method_text(comparison: Comparison) -> str:
    """Return how p-values came about, in one sentence."""
    effects = [row.effect for row in comparison.rows if row.effect]
    tests = sorted({effect.test for effect in effects}, reverse=True)
    adjusted = ", adjusted by Holm's method for the number of variants" if comparison.adjusted else ""
    return f"p: two-sided Mann-Whitney test, {' or '.join(tests)}{adjusted}" if effects else ""


def to_junit(comparison: Comparison) -> str:
    """Return JUnit XML: a test case per verdict, failed when slower, skipped with too few samples."""
    cases = [
        junit.Case(
            name=row.label,
            group=row.operation,
            seconds=row.summary.median,
            outcome=JUNIT_OUTCOMES.get(row.effect.verdict, junit.Outcome.PASSED),
            verdict=row.effect.verdict,
            sentence=_sentence(row, row.effect),
        )
        for row in comparison.rows
        if row.effect
    ]
    return junit.to_xml(JUNIT_SUITE, cases, [*comparison.warnings, *comparison.notices])


def _sentence(row: Row, effect: Effect) -> str:
    interval = format_interval(effect.median_decrease_percent, effect.interval_percent)
    return f"{verdict_text(effect, row)}; median decrease {interval}, p = {format_p(effect.p_adjusted)}"


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
    parts = [markdown_table(seconds_header(comparison), _seconds_rows(comparison))]
    if method_text(comparison):
        parts.append(f"{method_text(comparison)}\n")
    if comparison.counts:
        parts.append("Per transition, counted with tracing on and never timed:\n")
        parts.append(markdown_table(*count_table(comparison)))
    return "\n".join(parts)


def to_csv(comparison: Comparison) -> str:
    """Return one line per operation and variant, numbers unrounded; empty where there is none."""
    buffer = io.StringIO()
    entries = [flat_entry(comparison, row) for row in comparison.rows]
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
    # A label is text, whatever is in it.
    console = Console(
        file=stream, width=None if tty else PLAIN_WIDTH, highlight=False, markup=False, emoji=False
    )
    shape = comparison.shape
    if comparison.forced:
        console.print("compared by --force, though the runs do not compare; the first one's machine:")
    seconds = "emulated CPUs: seconds are not hardware's" if comparison.emulated else "hardware seconds"
    console.print(
        f"{shape.machine}, {shape.cpus} CPUs ({shape.cores} cores x SMT{shape.threads_per_core}),"
        f" {seconds}; lower is better",
    )
    if method_text(comparison):
        console.print(method_text(comparison))
    console.print(terminal_table(seconds_header(comparison), _seconds_rows(comparison), tty))
    if comparison.counts:
        console.print("\nper transition, counted with tracing on and never timed")
        console.print(terminal_table(*count_table(comparison), tty))


def _seconds_rows(comparison: Comparison) -> list[list[str]]:
    return [seconds_cells(row, comparison.baseline) for row in comparison.rows]


def terminal_table(
    header: list[str], rows: list[list[str]], tty: bool, words: Collection[str] = WORDS
) -> Table:
    """Return a table without lines, or with some on a terminal; columns in `words` are left-aligned."""
    table = Table(box=box.SIMPLE_HEAD if tty else None, pad_edge=False, header_style="bold" if tty else "")
    for name in header:
        table.add_column(name, justify="left" if name in words else "right")
    for row in rows:
        verdict = dict(zip(header, row, strict=True)).get("verdict", "")
        style = STYLES.get(verdict, "") if tty else ""
        table.add_row(*map(printable, row), style=style)
    return table


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """Return one table in GitHub's markdown."""
    lines = [header, ["---"] * len(header), *([markdown_text(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_files(directory: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Write files, name to text, and return their paths; ToolError (ENVIRONMENT) when that fails."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (directory / name).write_text(text, "utf-8")
    except OSError as error:
        raise ToolError(
            f"cannot write the table to {directory}: {error.strerror}",
            "name another --output-dir",
            ExitCode.ENVIRONMENT,
        ) from error
    return tuple(directory / name for name in texts)


def printable_entry(entry: dict[str, object]) -> dict[str, object]:
    """Return an entry whose texts can be printed as they are."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in entry.items()}


def markdown_text(text: str) -> str:
    """Return text that Markdown shows as it is, whatever it holds."""
    # HTML, links, emphasis and code are Markdown too; an entity is shown as the character it stands for.
    return "".join(f"&#{ord(one)};" if one in MARKDOWN_SPECIAL else one for one in printable(text))


def flat_entry(comparison: Comparison, row: Row) -> dict[str, object]:
    """Return one row of the comparison as a flat record, numbers unrounded, with its counts."""
    entry = comparison_entry(comparison, row)
    interval = entry.pop("interval_percent")
    low, high = interval if isinstance(interval, list) else (None, None)
    counts = comparison.count_row(row.operation, row.label)
    return {
        **printable_entry(entry),
        "interval_low_percent": low,
        "interval_high_percent": high,
        **{name: counts.typical(name) if counts else None for name in comparison.count_names},
    }


def _range(values: tuple[int, ...] | None) -> str:
    if not values:
        return NONE
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"
