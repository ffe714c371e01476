"""What every analysis has in common."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from hotplug_common.tables import Column, Kind, Sheet, Table
from hotplug_timer.trace.events import Handlers

Cell = str | int | float
Cells = tuple[Cell, ...]
#: The column of a call stack: long, and a page may break it.
STACK = "stack"
#: A stack, the outermost frame first, to its weight.
Folded = dict[tuple[str, ...], int]


@dataclass
class Spent:
    """Times in ns of what happened several times."""

    times: int = 0
    total: int = 0
    longest: int = 0

    def add(self, took: int) -> None:
        """Take one more."""
        self.times += 1
        self.total += took
        self.longest = max(self.longest, took)

    def merge(self, other: Spent) -> None:
        """Take all of the other."""
        self.times += other.times
        self.total += other.total
        self.longest = max(self.longest, other.longest)


def table(
    name: str, heading: str, columns: Sequence[str], rows: Sequence[Cells], words: Collection[str] = ()
) -> Table[Cells]:
    """Return the table of these cells, its most important row first; columns named in WORDS hold text."""

    def column(at: int, name: str) -> Column[Cells]:
        kind = Kind.TEXT if name == STACK else Kind.WORDS if name in words else Kind.NUMBER
        return Column(name, _show(at, 6 if name.endswith("(s)") else 1), kind)

    def record(cells: Cells) -> dict[str, object]:
        return dict(zip(columns, cells, strict=True))

    return Table(
        name,
        [column(at, name) for at, name in enumerate(columns)],
        rows,
        heading,
        record=record,
        flat=lambda cells: {"table": name, **record(cells)},
    )


def _show(at: int, digits: int) -> Callable[[Cells], str]:
    def show(cells: Cells) -> str:
        cell = cells[at]
        return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)

    return show


class Analysis(abc.ABC):
    """One way to read traces: give it the events of one file after the other, then ask."""

    #: The unit of the weights in `folded`.
    unit: str
    #: What the picture shows, in one sentence.
    title: str

    @abc.abstractmethod
    def handlers(self) -> Handlers:
        """Return what takes which events."""

    @abc.abstractmethod
    def end_file(self) -> None:
        """Forget what was begun and not ended: a file is over."""

    @abc.abstractmethod
    def tables(self, top: int) -> Sequence[Table[Cells]]:
        """Return the tables, the first TOP rows of each."""

    def sheet(self, top: int) -> Sheet:
        """Return what `trace` prints: the first TOP rows of each table."""
        return Sheet(self.tables(top))

    @abc.abstractmethod
    def folded(self) -> Folded:
        """Return all stacks with their weights, in `unit`."""

    def notices(self) -> Sequence[str]:
        """Return what to mind about the result."""
        return ()
