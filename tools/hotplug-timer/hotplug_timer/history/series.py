"""From runs to series (one host, variant and operation under the same conditions), each with a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from hotplug_timer.history.changes import MIN_CHANGE_PERCENT, MIN_POINTS, Change, changes
from hotplug_timer.history.entry import Conditions, Entry, Result

REGRESSION, IMPROVEMENT, STEADY = "regression", "improvement", "steady"
INSUFFICIENT = "insufficient history"
VERDICTS = (REGRESSION, IMPROVEMENT, STEADY, INSUFFICIENT)
#: How many of the newest points a change has to be among to be what the verdict is about.
RECENT = 20


@dataclass(frozen=True)
class Key:
    """What a series is of."""

    host: str
    variant: str
    operation: str
    conditions: Conditions

    @property
    def name(self) -> str:
        """Return its name in one line."""
        return f"{self.host} {self.variant} {self.operation}"


@dataclass(frozen=True)
class Point:
    """One run's part of a series."""

    run_id: str
    time: datetime
    kernel: str
    result: Result


@dataclass(frozen=True)
class Series:
    """A series and what there is to say about it; points and changes in time order.

    `change` is the one that the verdict is about; None without one. `failures` are the runs of this
    host and variant that failed, in time order.
    """

    key: Key
    points: tuple[Point, ...]
    changes: tuple[Change, ...]
    change: Change | None
    verdict: str
    failures: tuple[Entry, ...]

    @property
    def last(self) -> Point:
        """Return the newest point."""
        return self.points[-1]

    @property
    def level_s(self) -> float:
        """Return the seconds it stands at: the median since its last change."""
        begin = self.changes[-1].at if self.changes else 0
        return median(point.result.median_s for point in self.points[begin:])


@dataclass(frozen=True)
class Outlook:
    """All series of a history; `failed` are hosts' and variants' newest runs, where those failed."""

    series: tuple[Series, ...]
    failed: tuple[Entry, ...]
    runs: int
    failures: tuple[Entry, ...]

    def with_verdict(self, verdict: str) -> list[Series]:
        """Return the series of a verdict."""
        return [one for one in self.series if one.verdict == verdict]


def newest_days(entries: Sequence[Entry], days: int) -> list[Entry]:
    """Return the entries, which are in time order, of so many days up to the newest of them."""
    return [entry for entry in entries if entries[-1].time - entry.time < timedelta(days=days)]


def look(
    entries: Sequence[Entry], recent: int = RECENT, min_change_percent: float = MIN_CHANGE_PERCENT
) -> Outlook:
    """Return the series in entries, which are in time order, by host, variant and operation."""
    points: dict[Key, list[Point]] = {}
    failures = [entry for entry in entries if entry.failed]
    for entry in entries:
        for key, point in _points(entry):
            points.setdefault(key, []).append(point)
    newest = {(entry.host, entry.variant): entry for entry in entries}
    found = [
        judge(key, mine, [one for one in failures if _is_of(one, key)], recent, min_change_percent)
        for key, mine in points.items()
    ]
    return Outlook(
        series=tuple(sorted(found, key=lambda one: _order(one.key))),
        failed=tuple(entry for entry in newest.values() if entry.failed),
        runs=len(entries),
        failures=tuple(failures),
    )


def judge(
    key: Key, points: Sequence[Point], failures: Sequence[Entry], recent: int, min_change_percent: float
) -> Series:
    """Return a series of points in time order with its changes and its verdict."""
    found = changes([point.result.median_s for point in points], min_change_percent)
    newest = found[-1] if found and found[-1].at >= len(points) - recent else None
    if len(points) < MIN_POINTS:
        verdict = INSUFFICIENT
    elif newest is None:
        verdict = STEADY
    else:
        verdict = REGRESSION if newest.percent > 0 else IMPROVEMENT
    return Series(key, tuple(points), tuple(found), newest, verdict, tuple(failures))


def _points(entry: Entry) -> Iterable[tuple[Key, Point]]:
    if entry.failed or entry.conditions is None:
        return
    for result in entry.results:
        key = Key(entry.host, entry.variant, result.operation, entry.conditions)
        yield key, Point(entry.run_id, entry.time, entry.kernel or "unknown", result)


def _is_of(failure: Entry, key: Key) -> bool:
    return (failure.host, failure.variant) == (key.host, key.variant)


def _order(key: Key) -> tuple[str, str, str, str]:
    return key.host, key.operation, key.variant, str(key.conditions)
