"""Where a series of nights changed, looked for in four ways: each sees what the others are slow to see.

- `STEP`: at an unknown place. ruptures proposes it, and an exact rank test confirms it.
- `KERNEL`: at a known place, the first night of another kernel. The rank test alone is enough, after 5, 10
  and 20 nights; these looks share its level, and so do the kernels of three months.
- `CONFIRMED`: one night far off, and several boots the night after that are, too.
- `CREEP`: no step, but a trend.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import expm1, log1p, sqrt

import numpy as np
import scipy

from hotplug_common.stats import Floats, rank_test
from hotplug_timer.compare.drift import trend
from hotplug_timer.history.noise import LEAST_NIGHTS, MIN_SEGMENT, Noise, correlation, split

STEP, KERNEL, CONFIRMED, CREEP = "step", "new kernel", "confirmed", "creep"

#: With fewer nights nothing is looked for.
MIN_POINTS = 10
#: Level of the rank test. For an unknown place it is divided by the number of nights, of which any could have
#: been it, and by `LEAST_NIGHTS` at least.
ALPHA = 0.01
#: After how many nights of a new kernel they are held against those before it, and the level of each of these
#: looks. They share nights: together they are at `ALPHA`.
LOOKS = {5: 0.001, 10: 0.003, 20: 0.01}
#: So many nights at most are what new ones are held against, and the kernels of so many share the level.
BASELINE = 90
#: A step smaller than this is not mentioned, however sure it is.
MIN_CHANGE_PERCENT = 3.0
#: A night is suspect so many standard deviations above its level, and one so far above confirms it.
SUSPECT, SURE = 3.0, 2.5
#: What was confirmed by a night stays a change while the nights since then are so far above, by their median.
HELD = 1.5
#: Fewer nights are no measure of what is far, for one night or for those of a kernel.
MIN_BASELINE = 30
#: Boots that the night after a suspect one needs to confirm it, and how many regress.yml adds to its own one.
CONFIRM_BOOTS = 3
#: Level of the trend test, which is asked once a week, and the weeks that it needs.
CREEP_ALPHA = 0.001
WEEK, MIN_WEEKS = 7, 4
#: Steps of so many (long-run) standard deviations are found: within ten nights anywhere, and by the last look
#: at a new kernel. In 7 of 10 series, as simulated by tests/hotplug_timer/history/test_power.py.
FOUND, FOUND_AT_KERNEL = 2.0, 1.0


@dataclass(frozen=True)
class Change:
    """A step between two levels, which are medians in seconds; `at` is the index of the first night after it.

    Of a creep they are the ends of its line, which begins at `at`. `percent` is above 0 where seconds grew.
    `p_value` is the rank test's of the two levels, or the trend test's.
    """

    at: int
    before_s: float
    after_s: float
    percent: float
    p_value: float
    kind: str

    def is_same(self, earlier: Change, min_change_percent: float) -> bool:
        """Whether this is what was found with fewer nights. A creep that has gone on is another."""
        if CREEP in (self.kind, earlier.kind) and (
            self.kind != earlier.kind or abs(self.percent - earlier.percent) >= min_change_percent
        ):
            return False
        return abs(self.at - earlier.at) < MIN_SEGMENT


@dataclass(frozen=True)
class Nights:
    """A series to search: positive seconds of each night in time order.

    `boots` are those that a night's seconds are of, one each where it is empty. `kernels` are the indexes of
    nights with another kernel than the night before.
    """

    seconds: Sequence[float]
    boots: Sequence[int] = ()
    kernels: Sequence[int] = ()

    def first(self, number: int) -> Nights:
        """Return the first so many nights."""
        return Nights(self.seconds[:number], self.boots[:number], [at for at in self.kernels if at < number])


@dataclass(frozen=True)
class Findings:
    """The changes in time order, a creep last, and whether the newest night is suspect.

    `noise` is None without enough nights; then nothing was looked for.
    """

    changes: tuple[Change, ...]
    suspect: bool
    noise: Noise | None


def search(nights: Nights, min_change_percent: float = MIN_CHANGE_PERCENT) -> Findings:
    """Return what has changed; nothing in fewer than `MIN_POINTS` nights."""
    values = np.asarray(nights.seconds, np.float64)
    if len(values) < MIN_POINTS:
        return Findings((), False, None)
    noise, places = split(np.log(values))
    steps = _sure(values, dict.fromkeys(places, STEP), min_change_percent)
    cuts = [step.at for step in steps]
    kernels = _known(values, nights.kernels, cuts, noise.inflation, min_change_percent)
    kinds = {at: STEP for at in cuts if not _is_near(at, kernels)} | dict.fromkeys(kernels, KERNEL)
    boots = nights.boots or [1] * len(values)
    confirmed, suspect = _suspicions(np.log(values), boots, kinds, min_change_percent)
    changes = _sure(values, kinds | dict.fromkeys(confirmed, CONFIRMED), min_change_percent)
    changes += _creep(values, changes[-1].at if changes else 0, min_change_percent)
    return Findings(tuple(changes), suspect, noise)


def found_percent(noise: Noise, multiple: float, min_change_percent: float) -> float:
    """Return which step (percent) of seconds with this noise is found: `FOUND`, or `FOUND_AT_KERNEL`."""
    return max(100 * expm1(multiple * noise.long_run), min_change_percent)


def _sure(values: Floats, kinds: dict[int, str], min_change_percent: float) -> list[Change]:
    """Return the changes at those places that divide the levels on both sides, in time order."""
    edges = [0, *sorted(kinds), len(values)]
    while len(edges) > 2:
        changes = [
            _change(values, before, at, after, kinds[at])
            for (before, at), (_, after) in zip(pairwise(edges), pairwise(edges[1:]), strict=False)
        ]
        wrong = [change for change in changes if not _is_sure(change, len(values), min_change_percent)]
        if not wrong:
            return changes
        # Levels on both sides of a place that is none are one level: judge the others anew.
        edges.remove(max(wrong, key=lambda change: change.p_value).at)
    return []


def _change(values: Floats, begin: int, at: int, end: int, kind: str) -> Change:
    before, after = values[begin:at], values[at:end]
    low, high = float(np.median(before)), float(np.median(after))
    return Change(at, low, high, 100 * (high / low - 1), rank_test(before, after)[0], kind)


def _is_sure(change: Change, nights: int, min_change_percent: float) -> bool:
    """Whether it is large enough; and beyond chance, which of a place that was known has been tested."""
    return abs(change.percent) >= min_change_percent and (
        change.kind != STEP or change.p_value <= ALPHA / max(nights, LEAST_NIGHTS)
    )


def _known(
    values: Floats,
    kernels: Sequence[int],
    cuts: Sequence[int],
    inflation: float,
    min_change_percent: float,
) -> list[int]:
    """Return those first nights of a kernel from which on there is another level.

    A look of twenty nights also sees what a later kernel did. So of those that differ the one that divides
    its nights best is taken first, and bounds the nights of the others.
    """
    found: list[int] = []
    judged: dict[tuple[int, int, int], float | None] = {}
    while True:
        best: dict[int, float] = {}
        for at in kernels:
            if _is_near(at, found):
                continue
            edges = [edge for edge in (*cuts, *found) if abs(edge - at) >= MIN_SEGMENT]
            begin = max(edge for edge in (0, at - BASELINE, *edges) if edge < at)
            end = min(edge for edge in (len(values), *edges) if edge > at)
            if (begin, at, end) not in judged:
                sharing = sum(at - BASELINE < other <= at for other in kernels)
                judged[begin, at, end] = _divided(
                    values[begin:end], at - begin, sharing, inflation, min_change_percent
                )
            p_value = judged[begin, at, end]
            if p_value is not None:
                best[at] = p_value
        if not best:
            return found
        found.append(min(best, key=best.__getitem__))


def _divided(
    values: Floats, at: int, sharing: int, inflation: float, min_change_percent: float
) -> float | None:
    """Return the p-value of all nights before AT and after it, if a look at the first ones after it differs.

    SHARING is how many kernels share the level.
    """
    if at < MIN_BASELINE:
        return None
    before, after = values[:at], values[at:]
    for nights, alpha in LOOKS.items():
        # Nights that resemble each other are as far apart by chance as fewer independent ones.
        level = float(2 * scipy.special.ndtr(scipy.special.ndtri(alpha / sharing / 2) * sqrt(inflation)))
        look = after[:nights]
        percent = 100 * (float(np.median(look) / np.median(before)) - 1)
        if len(look) == nights and abs(percent) >= min_change_percent and rank_test(before, look)[0] <= level:
            return rank_test(before, after)[0]
    return None


def _suspicions(
    logs: Floats, boots: Sequence[int], edges: Iterable[int], min_change_percent: float
) -> tuple[list[int], bool]:
    """Return the suspect nights that were confirmed and that the nights since then hold; whether one is open.

    It is open until a night with several boots confirms it, or any night is below what would.
    """
    confirmed, known, is_open = [], list(edges), False
    for at in range(MIN_BASELINE, len(logs)):
        begin = max((edge for edge in known if edge < at), default=0)
        before = logs[max(begin, at - BASELINE) : at]
        if _is_near(at, known) or len(before) < MIN_BASELINE or logs[at] <= before.max():
            # Where nights that are busy with something else are common, one of them is no news.
            continue
        level, sd = float(np.median(before)), split(before)[0].sd
        least = level + log1p(min_change_percent / 100)
        if logs[at] <= max(level + SUSPECT * sd, least):
            continue
        sure = max(level + SURE * sd, least, before.max())
        end = min((edge for edge in known if edge > at), default=len(logs))
        answers = (
            night for night in range(at + 1, end) if logs[night] <= sure or boots[night] >= CONFIRM_BOOTS
        )
        answer = next(answers, None)
        if answer is None:
            is_open = is_open or end == len(logs)
        elif logs[answer] > sure and np.median(logs[at:end]) > max(level + HELD * sd, least):
            confirmed.append(at)
            known.append(at)
    return confirmed, is_open


def _creep(values: Floats, begin: int, min_change_percent: float) -> list[Change]:
    """Return the trend since the last step, as of the last whole week; empty without one."""
    weeks = (len(values) - begin) // WEEK
    if weeks < MIN_WEEKS:
        return []
    part = values[begin : begin + weeks * WEEK]
    if trend([part], CREEP_ALPHA) is None:
        return []
    logs, days = np.log(part), np.arange(len(part))
    line = scipy.stats.theilslopes(logs, days)
    noise = Noise(0.0, correlation(logs - line.intercept - line.slope * days))
    found = trend([part], CREEP_ALPHA, noise.inflation)
    if found is None:
        return []
    middle, half = float(np.median(part)), found.change_percent / 200
    before, after = middle * (1 - half), middle * (1 + half)
    percent = 100 * (after / before - 1)
    return (
        [Change(begin, before, after, percent, found.p_value, CREEP)]
        if abs(percent) >= min_change_percent
        else []
    )


def _is_near(at: int, places: Iterable[int]) -> bool:
    return any(abs(at - place) < MIN_SEGMENT for place in places)
