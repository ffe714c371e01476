"""Tables: what a command found, and one printer for each format."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Generic, TextIO, TypeVar

from hotplug_host.text import aligned, printable

if TYPE_CHECKING:
    import argparse

Row = TypeVar("Row")
Record = Mapping[str, object]
#: The cell of a value that is not there.
NONE = "-"
FORMATS = ("table", "markdown", "csv", "json")
JUNIT = "junit"
#: The colour of a row on a terminal, by the cell in its column of this heading.
VERDICT = "verdict"
COLORS = {"faster": "green", "improvement": "green", "slower": "red", "regression": "red"}
#: What Markdown, or the HTML that it becomes, would read as more than text.
MARKDOWN_SPECIAL = frozenset("|<>&`*[]\\~!")


class Kind(Enum):
    """What a column holds: numbers are aligned to the right; a TEXT is long, and a page may break it."""

    NUMBER = auto()
    WORDS = auto()
    TEXT = auto()


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column of the formats for people; `show` returns its cell for a row."""

    heading: str
    show: Callable[[Row], str]
    kind: Kind = Kind.NUMBER


@dataclass(frozen=True)
class Table(Generic[Row]):
    """One table. People read `columns`; programs read one record of each row, numbers unrounded.

    `record` gives a row's object in the JSON list NAME, and `flat` its line of CSV; the table is not in a
    format whose function is None. `heading` is a line above the table.
    """

    name: str
    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    heading: str = ""
    record: Callable[[Row], Record] | None = None
    flat: Callable[[Row], Record] | None = None

    @property
    def headings(self) -> list[str]:
        """Return the headings of the columns."""
        return [column.heading for column in self.columns]

    @property
    def cells(self) -> list[list[str]]:
        """Return the text of each row's cells."""
        return [[column.show(row) for column in self.columns] for row in self.rows]


class Outcome(Enum):
    """A verdict as a test's result; ERROR is for a measurement that failed."""

    PASSED = auto()
    FAILED = auto()
    SKIPPED = auto()
    ERROR = auto()


@dataclass(frozen=True)
class Case:
    """A verdict as a test case, listed under `group`; `seconds` is a median, None without one."""

    name: str
    group: str
    seconds: float | None
    outcome: Outcome
    verdict: str
    sentence: str


@dataclass(frozen=True)
class Suite:
    """The verdicts of a command as JUnit has them, with remarks on all of them."""

    name: str
    cases: Sequence[Case]
    remarks: Sequence[str]


@dataclass(frozen=True)
class Sheet:
    """What one command prints: tables, and what belongs to all of them.

    `lead` are paragraphs above the tables, `notes` those below. JSON has `facts` before the lists of rows and
    `remarks` after them. `doubts` end the Markdown: it is kept in files, without the warnings on stderr.
    """

    tables: Sequence[Table[Any]]
    lead: Sequence[str] = ()
    notes: Sequence[str] = ()
    facts: Record = field(default_factory=dict)
    remarks: Record = field(default_factory=dict)
    doubts: Sequence[str] = ()
    suite: Suite | None = None

    @property
    def filled(self) -> list[Table[Any]]:
        """Return the tables that people see: empty ones below the first are left out."""
        return [table for number, table in enumerate(self.tables) if table.rows or not number]


def add_format(parser: argparse._ActionsContainer, *more: str) -> None:
    """Add the option --format, with MORE formats than `FORMATS`."""
    parser.add_argument(
        "--format",
        choices=(*FORMATS, *more),
        default=FORMATS[0],
        help="how to print it (default: %(default)s)",
    )


def print_tables(sheet: Sheet, style: str, out: TextIO) -> None:
    """Print a sheet in one of `FORMATS`, or as "junit" where it has a suite."""
    if style == FORMATS[0] and out.isatty():
        _print_on_terminal(sheet, out)
    else:
        out.write(PRINTERS[style](sheet))


def to_text(sheet: Sheet) -> str:
    """Return the sheet as plain text, columns aligned and as wide as they have to be."""
    return "".join(
        f"{printable(block)}\n" if isinstance(block, str) else _plain(block) for block in _blocks(sheet)
    )


def to_markdown(sheet: Sheet) -> str:
    """Return the sheet in GitHub's Markdown."""
    parts = [f"{markdown_text(text)}\n" for text in sheet.lead]
    for table in sheet.filled:
        parts += [f"{markdown_text(table.heading)}:\n"] if table.heading else []
        parts.append(_markdown_table(table))
    parts += [f"{markdown_text(text)}\n" for text in sheet.notes]
    if sheet.doubts:
        parts += ["To mind:\n", "".join(f"- {markdown_text(text)}\n" for text in sheet.doubts)]
    return "\n".join(parts)


def to_csv(sheet: Sheet) -> str:
    """Return one line for each row, with the columns of all tables; empty where there is no row."""
    entries = [table.flat(row) for table in sheet.tables if table.flat for row in table.rows]
    if not entries:
        return ""
    buffer = io.StringIO()
    columns = list(dict.fromkeys(name for entry in entries for name in entry))
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(_printable_entry, entries))
    return buffer.getvalue()


def to_json(sheet: Sheet) -> str:
    """Return one JSON object; tables of one name are one list."""
    lists: dict[str, list[Record]] = {}
    for table in sheet.tables:
        if table.record:
            lists.setdefault(table.name, []).extend(map(table.record, table.rows))
    return json.dumps({**sheet.facts, **lists, **sheet.remarks}, indent=2) + "\n"


def to_junit(sheet: Sheet) -> str:
    """Return the verdicts as JUnit XML."""
    from hotplug_common import junit  # noqa: PLC0415 - the other formats need no junitparser

    assert sheet.suite is not None  # noqa: S101 - the command line offers "junit" only where there is one
    return junit.to_xml(sheet.suite)


PRINTERS: Mapping[str, Callable[[Sheet], str]] = {
    "table": to_text,
    "markdown": to_markdown,
    "csv": to_csv,
    "json": to_json,
    JUNIT: to_junit,
}


def significant(value: float, number: int = 3) -> str:
    """Return a number with so many digits that count, and no exponent; "0" for what is not above 0."""
    if value <= 0:
        return "0"
    digits = number - 1 - math.floor(math.log10(value))
    return f"{round(value, digits):.{max(0, digits)}f}"


def markdown_text(text: str) -> str:
    """Return text that Markdown shows as it is, whatever it holds."""
    # HTML, links, emphasis and code are Markdown too; an entity is shown as the character it stands for.
    return "".join(f"&#{ord(one)};" if one in MARKDOWN_SPECIAL else one for one in printable(text))


def _markdown_table(table: Table[Any]) -> str:
    lines = [table.headings, ["---"] * len(table.columns)]
    lines += [[markdown_text(cell) for cell in row] for row in table.cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _printable_entry(entry: Record) -> Record:
    return {name: printable(value) if isinstance(value, str) else value for name, value in entry.items()}


def _blocks(sheet: Sheet) -> Iterator[str | Table[Any]]:
    """Yield the lines and tables of a sheet as people read them, top to bottom."""
    yield from sheet.lead
    for number, table in enumerate(sheet.filled):
        if table.heading:
            yield from [""] * bool(sheet.lead or number)
            yield table.heading
        yield table
    for note in sheet.notes:
        yield ""
        yield note


def _plain(table: Table[Any]) -> str:
    left = [at for at, column in enumerate(table.columns) if column.kind is not Kind.NUMBER]
    return aligned([table.headings, *table.cells], left)


def _print_on_terminal(sheet: Sheet, out: TextIO) -> None:
    """Print with colours, and fit to the width of the terminal."""
    from rich.console import Console  # noqa: PLC0415 - takes a while, and only a terminal needs it

    # A variant's name is text, whatever is in it.
    console = Console(file=out, highlight=False, markup=False, emoji=False)
    for block in _blocks(sheet):
        if isinstance(block, str):
            console.print(printable(block), soft_wrap=True)
        else:
            console.print(_grid(block))


def _grid(table: Table[Any]) -> Any:
    from rich import box  # noqa: PLC0415 - as above
    from rich.table import Table as Grid  # noqa: PLC0415

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in table.columns:
        grid.add_column(column.heading, justify="right" if column.kind is Kind.NUMBER else "left")
    for row in table.cells:
        verdict = dict(zip(table.headings, row, strict=True)).get(VERDICT, "")
        grid.add_row(*map(printable, row), style=COLORS.get(verdict, ""))
    return grid
