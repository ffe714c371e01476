"""Printing what an analysis found: table, markdown, CSV, JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from hotplug_timer.compare.text import PLAIN_WIDTH, markdown_table, terminal_table
from hotplug_timer.trace.model import Cell, Table


def print_tables(tables: Sequence[Table], style: str, stream: TextIO) -> None:
    """Print tables as "table", "markdown", "csv" or "json".

    The latter two have numbers unrounded; the others leave out what is empty below the first table.
    """
    filled = [table for number, table in enumerate(tables) if table.rows or not number]
    if style == "table":
        _print_plain(filled, stream)
    elif style == "markdown":
        stream.write(to_markdown(filled))
    else:
        stream.write({"csv": to_csv, "json": to_json}[style](tables))


def to_markdown(tables: Sequence[Table]) -> str:
    """Return the tables in GitHub's markdown, each below its heading."""
    return "\n".join(f"{table.heading}:\n\n{markdown_table(*texts(table))}" for table in tables)


def to_csv(tables: Sequence[Table]) -> str:
    """Return the rows of all tables with the columns of all of them; the first column names the table."""
    columns = list(dict.fromkeys(name for table in tables for name in table.columns))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, ["table", *columns], lineterminator="\n")
    writer.writeheader()
    for table in tables:
        writer.writerows({"table": table.name, **entry} for entry in _entries(table))
    return buffer.getvalue()


def to_json(tables: Sequence[Table]) -> str:
    """Return an object with one list of rows per table."""
    return json.dumps({table.name: _entries(table) for table in tables}, indent=2) + "\n"


def texts(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return a table's headings and rows as they are printed."""
    rows = [[_text(cell, name) for cell, name in zip(row, table.columns, strict=True)] for row in table.rows]
    return list(table.columns), rows


def _print_plain(tables: Sequence[Table], stream: TextIO) -> None:
    tty = stream.isatty()
    for number, table in enumerate(tables):
        header, rows = texts(table)
        # What stacks and tasks are called is cut nowhere but on a terminal.
        widths = [max(map(len, column)) + 2 for column in zip(header, *rows, strict=True)]
        width = None if tty else max(PLAIN_WIDTH, sum(widths))
        console = Console(file=stream, width=width, highlight=False, markup=False)
        console.print(Text(("\n" if number else "") + table.heading))
        console.print(terminal_table(header, rows, tty, table.words))


def _entries(table: Table) -> list[dict[str, Cell]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def _text(cell: Cell, column: str) -> str:
    if isinstance(cell, float):
        return f"{cell:.6f}" if column.endswith("(s)") else f"{cell:.1f}"
    return str(cell)
