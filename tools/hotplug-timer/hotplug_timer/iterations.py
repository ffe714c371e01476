"""The iterations of a run, kept in columns: a file may hold a million."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Kind:
    """What many iterations of a run have in common.

    `switched` CPUs went, most of them in `direction` ("off" or "on"). Where no CPU was to be switched, as in
    clock checks, there are no path, driver and direction.
    """

    operation: str
    phase: str
    status: str
    path: str | None
    driver: str | None
    direction: str | None
    switched: int


@dataclass(frozen=True)
class Iteration(Kind):
    """One transition. `seconds` is None unless it was timed and came to its end.

    `durations` are the seconds of what was counted; None where the kernel did not time it.
    """

    index: int
    seconds: float | None
    error: str | None
    counts: dict[str, int] | None
    durations: dict[str, float] | None


class _Seen:
    """Which indices came: all up to one, as long as they come in order, and others."""

    def __init__(self) -> None:
        self._upto = 0
        self._others: set[int] = set()

    def add(self, index: int) -> bool:
        """Whether it is the first time that INDEX comes."""
        if index <= self._upto or index in self._others:
            return False
        self._others.add(index)
        while self._upto + 1 in self._others:
            self._upto += 1
            self._others.remove(self._upto)
        return True


class Iterations(Sequence[Iteration]):
    """A run's iterations in time order. `seconds` and `select` look at each kind once, not at each item."""

    def __init__(self) -> None:
        self._codes: dict[Kind, int] = {}
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._code = array("I")
        self._index = array("q")
        self._seconds = array("d")
        self._errors: dict[int, str] = {}
        self._counts: dict[int, dict[str, int]] = {}
        self._durations: dict[int, dict[str, float]] = {}

    def append(self, record: Mapping[str, Any]) -> bool:
        """Add an iteration's record, which has been checked against the schema; False if it came before."""
        index, detail = int(record["index"]), record["detail"]
        if not self._seen.setdefault((record["operation"], record["phase"]), _Seen()).add(index):
            return False
        kind = Kind(
            operation=record["operation"],
            phase=record["phase"],
            status=record["status"],
            path=detail.get("path"),
            driver=detail.get("driver"),
            direction=detail.get("direction"),
            switched=detail.get("switched", 0),
        )
        at = len(self._code)
        self._code.append(self._codes.setdefault(kind, len(self._codes)))
        self._index.append(index)
        self._seconds.append(np.nan if record["seconds"] is None else record["seconds"])
        if record["error"] is not None:
            self._errors[at] = record["error"]
        if (counts := detail.get("counts")) is not None:
            self._counts[at] = {name: int(value) for name, value in counts.items()}
        if (durations := detail.get("durations_s")) is not None:
            self._durations[at] = {name: float(value) for name, value in durations.items()}
        return True

    def kinds(self) -> tuple[Kind, ...]:
        """Return the kinds there are, in the order in which they first came."""
        return tuple(self._codes)

    def select(self, wanted: Callable[[Kind], bool]) -> Iterator[Iteration]:
        """Yield the iterations of the kinds wanted, in time order."""
        return (self[int(at)] for at in self._positions(wanted))

    def seconds(self, wanted: Callable[[Kind], bool]) -> NDArray[np.float64]:
        """Return the seconds of the kinds wanted, in time order; those without seconds are left out."""
        seconds = np.array(self._seconds, np.float64)[self._positions(wanted)]
        return seconds[~np.isnan(seconds)]

    def __len__(self) -> int:
        return len(self._code)

    @overload
    def __getitem__(self, at: int) -> Iteration: ...
    @overload
    def __getitem__(self, at: slice) -> list[Iteration]: ...
    def __getitem__(self, at: int | slice) -> Iteration | list[Iteration]:
        if isinstance(at, slice):
            return [self[position] for position in range(*at.indices(len(self)))]
        position = range(len(self))[at]
        kind = tuple(self._codes)[self._code[position]]
        seconds = self._seconds[position]
        return Iteration(
            **vars(kind),
            index=self._index[position],
            seconds=None if np.isnan(seconds) else seconds,
            error=self._errors.get(position),
            counts=self._counts.get(position),
            durations=self._durations.get(position),
        )

    def _positions(self, wanted: Callable[[Kind], bool]) -> NDArray[np.int64]:
        codes = [code for kind, code in self._codes.items() if wanted(kind)]
        return np.flatnonzero(np.isin(np.array(self._code, np.int64), codes))
