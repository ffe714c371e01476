"""From runs to series (one host, variant and operation under the same conditions), each with a verdict.

A point of a series is a night: a machine that is busy tonight is so for all boots of tonight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from math import sqrt
from statistics import median

from hotplug_timer.history.changes import (
    CREEP,
    FOUND,
    FOUND_AT_KERNEL,
    MIN_CHANGE_PERCENT,
    Change,
    Nights,
    found_percent,
    search,
)
from hotplug_timer.history.entry import Conditions, Entry, Result

REGRESSION, IMPROVEMENT, STEADY = "regression", "improvement", "steady"
SUSPECT, INSUFFICIENT = "suspect", "insufficient history"
VERDICTS = (REGRESSION, IMPROVEMENT, SUSPECT, STEADY, INSUFFICIENT)
#: How many points ago a change has to have been unknown to be what the verdict is about.
RECENT = 20
#: Runs of one kernel that start within so long of the first of them are one night, and one point.
NIGHT = timedelta(hours=12)


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
    """A night of a series: `result` is of all its boots, `run_id` and `time` are of its first run.

    The seconds are the median of the boots', each the median of its samples; `n` counts the samples of all,
    and the spread is that within boots.
    """

    run_id: str
    time: datetime
    kernel: str
    result: Result
    boots: int


@dataclass(frozen=True)
class Found:
    """Which steps of a series are found (percent): at any place within ten nights, and at a new kernel."""

    anywhere_percent: float
    at_kernel_percent: float


@dataclass(frozen=True)
class Series:
    """A series and what there is to say about it; points and changes in time order, a creep last.

    `change` is the one that the verdict is about; None without one. `found` is None while there are too few
    points. `failures` are the runs of this host and variant that failed, in time order.
    """

    key: Key
    points: tuple[Point, ...]
    changes: tuple[Change, ...]
    change: Change | None
    found: Found | None
    verdict: str
    failures: tuple[Entry, ...]

    @property
    def last(self) -> Point:
        """Return the newest point."""
        return self.points[-1]

    @property
    def steps(self) -> tuple[Change, ...]:
        """Return the changes that divide it into levels: all but a creep."""
        return tuple(change for change in self.changes if change.kind != CREEP)

    @property
    def creep(self) -> Change | None:
        """Return the trend since its last step, if there is one."""
        return next((change for change in self.changes if change.kind == CREEP), None)

    @property
    def level_s(self) -> float:
        """Return the seconds it stands at: the median since its last step."""
        begin = self.steps[-1].at if self.steps else 0
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
    runs: dict[Key, list[tuple[Entry, Result]]] = {}
    failures = [entry for entry in entries if entry.failed]
    for entry in entries:
        if entry.failed is None and entry.conditions is not None:
            for result in entry.results:
                key = Key(entry.host, entry.variant, result.operation, entry.conditions)
                runs.setdefault(key, []).append((entry, result))
    newest = {(entry.host, entry.variant): entry for entry in entries}
    found = [
        judge(key, _points(mine), [one for one in failures if _is_of(one, key)], recent, min_change_percent)
        for key, mine in runs.items()
    ]
    return Outlook(
        series=tuple(sorted(found, key=lambda one: _order(one.key))),
        failed=tuple(entry for entry in newest.values() if entry.failed),
        runs=len(entries),
        failures=tuple(failures),
    )


def suspects(entries: Sequence[Entry], host: str, now: datetime) -> list[str]:
    """Return the variants of which a series was suspect on the host's newest night before this one.

    Runs of tonight are passed by: the answer is the same before the first of them and after the last. So are
    series that have ended, which no boot would confirm or drop.
    """
    before = [entry for entry in entries if entry.host == host and now - entry.time >= NIGHT]
    newest = {entry.variant: entry.time for entry in before if entry.failed is None}
    found = [
        series.key.variant
        for series in look(before).series
        if series.verdict == SUSPECT and newest[series.key.variant] - series.last.time < NIGHT
    ]
    return list(dict.fromkeys(found))


def judge(
    key: Key, points: Sequence[Point], failures: Sequence[Entry], recent: int, min_change_percent: float
) -> Series:
    """Return a series of points in time order with its changes and its verdict."""
    nights = Nights(
        seconds=[point.result.median_s for point in points],
        boots=[point.boots for point in points],
        kernels=[at for at, (old, new) in enumerate(pairwise(points), 1) if old.kernel != new.kernel],
    )
    findings = search(nights, min_change_percent)
    known = search(nights.first(max(len(points) - recent, 0)), min_change_percent).changes
    fresh = [
        change
        for change in findings.changes
        if not any(change.is_same(old, min_change_percent) for old in known)
    ]
    newest = fresh[-1] if fresh else None
    if findings.noise is None:
        verdict, found = INSUFFICIENT, None
    else:
        found = Found(
            *(found_percent(findings.noise, one, min_change_percent) for one in (FOUND, FOUND_AT_KERNEL))
        )
        verdict = SUSPECT if findings.suspect else STEADY
    if newest:
        verdict = REGRESSION if newest.percent > 0 else IMPROVEMENT
    return Series(key, tuple(points), findings.changes, newest, found, verdict, tuple(failures))


def _points(runs: Sequence[tuple[Entry, Result]]) -> list[Point]:
    nights: list[list[tuple[Entry, Result]]] = []
    for entry, result in runs:
        first = nights[-1][0][0] if nights else None
        if first and first.kernel == entry.kernel and entry.time - first.time < NIGHT:
            nights[-1].append((entry, result))
        else:
            nights.append([(entry, result)])
    return [_point(night) for night in nights]


def _point(night: Sequence[tuple[Entry, Result]]) -> Point:
    boots: dict[str, list[float]] = {}
    for entry, result in night:
        boots.setdefault(entry.boot or entry.run_id, []).append(result.median_s)
    results = [result for _, result in night]
    counted = dict.fromkeys(name for result in results for name in result.counts)
    spreads = [one.spread_percent for one in results if one.spread_percent is not None]
    merged = Result(
        operation=results[0].operation,
        median_s=median(map(median, boots.values())),
        n=sum(result.n for result in results),
        counts={
            name: median(result.counts[name] for result in results if name in result.counts)
            for name in counted
        },
        spread_percent=sqrt(sum(one**2 for one in spreads) / len(spreads)) if spreads else None,
    )
    first = night[0][0]
    return Point(first.run_id, first.time, first.kernel or "unknown", merged, len(boots))


def _is_of(failure: Entry, key: Key) -> bool:
    return (failure.host, failure.variant) == (key.host, key.variant)


def _order(key: Key) -> tuple[str, str, str, str]:
    return key.host, key.operation, key.variant, str(key.conditions)
