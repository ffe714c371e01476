"""What every analysis has in common."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

from hotplug_timer.trace.events import Handlers

Cell = str | int | float
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


@dataclass(frozen=True)
class Table:
    """One table, its most important row first; columns named in WORDS hold text."""

    name: str
    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: frozenset[str]


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
    def tables(self, top: int) -> Sequence[Table]:
        """Return the tables, the first TOP rows of each."""

    @abc.abstractmethod
    def folded(self) -> Folded:
        """Return all stacks with their weights, in `unit`."""

    def notices(self) -> Sequence[str]:
        """Return what to mind about the result."""
        return ()
