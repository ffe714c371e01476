"""Variants compared boot by boot: iterations within a boot resemble each other, so the boot is the unit.

Each boot has one value, the median of its log seconds. What differs from boot to boot (where memory lies, how
CPUs are numbered) is then in the spread of the values, however many iterations a boot has.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist

import numpy as np
import scipy
from numpy.typing import NDArray

from hotplug_common import stats
from hotplug_common.stats import ALPHA, CONFIDENCE, Floats, Interval

#: The seconds of each boot, by what names the boot.
Boots = Mapping[str, Sequence[float]]

#: Logarithms of seconds are not surer than this: a clock's digits end somewhere.
LEAST_SD = 1e-6
#: The variance of a median of normal values, times their number, to that of their mean; for three and more.
MEDIAN_COST = math.pi / 2
#: From so many boots a side (so many pairs) an exact permutation test stands beside the t test.
PERMUTED_BOOTS = 4
#: Above this many permutations, so many seeded ones stand for all of them.
MAX_PERMUTATIONS, DRAWN = 20_000, 2_000
#: An effect of `sqrt(cost / (n - offset))` standard deviations of boots (of differences in pairs) is found
#: in 90% of comparisons with n boots a side (n pairs), and with two of them one of `TWO_BOOTS` (`TWO_PAIRS`).
#: The costs are (1.96 + 1.28)^2 for pairs and twice that otherwise; the offsets, and what two boots take, are
#: what an unknown spread costs, as simulated by tests/hotplug_common/test_boots.py.
COST, OFFSET, TWO_BOOTS = 21.0, 2.0, 7.0
PAIRS_COST, PAIRS_OFFSET, TWO_PAIRS = 10.5, 2.33, 15.0
#: Two boots against more are not as good as two against two, which share their degrees of freedom.
UNEVEN_COST = 2.0
#: More boots than this are not counted, nor permuted: measure in another way.
MOST_BOOTS = 1000
#: An effect that operators ask for: how many boots find it?
ASKED_PERCENT = 5.0
#: Boots that differ by this times a log ratio (sd) give it by chance in 5% of comparisons of one boot a side.
ONE_BOOT_SHARE = 1 / (math.sqrt(2) * NormalDist().inv_cdf(1 - ALPHA / 2))

WELCH, PAIRED = "Welch t, boots", "paired t, boots"
ONE_BOOT = "one boot a side"
WITHIN = "within this boot"
#: The verdicts that name a difference.
DIFFERENT = tuple(f"{word}{where}" for word in (stats.FASTER, stats.SLOWER) for where in ("", f" {WITHIN}"))


@dataclass(frozen=True)
class Spread:
    """How boots of one variant differ, and iterations within them: standard deviations of log seconds.

    Each is in percent, and None where there is nothing to take it from. `iterations` are the fewest and the
    most of a boot.
    """

    boots: int
    iterations: tuple[int, int]
    boot_sd_percent: float | None
    within_sd_percent: float | None


@dataclass(frozen=True)
class Effect:
    """A variant against the baseline. Decreases are in percent; above 0 is an improvement.

    `speedup` is the ratio of the typical boots' seconds, and `median_decrease_percent` the same as a
    decrease. p-values are None with one boot a side; the adjusted ones are what the verdict follows: Holm's.
    `min_p` is the smallest p-value that so much data can give at all: above 0 only within one boot, where
    the test is of ranks. `paired` tells whether both variants were measured in the same boots, `boots` how
    many of the variant the test used. `smallest_effect_percent` is the decrease that so many boots with this
    spread find nine times of ten, `boots_needed` how many a side would find `ASKED_PERCENT`, and
    `holds_below_boot_sd_percent` the spread of boots that one boot a side does not tell from the effect.
    """

    boots: int
    boots_baseline: int
    paired: bool
    decrease_percent: float
    median_decrease_percent: float
    interval_percent: Interval | None
    speedup: float
    test: str | None
    p_value: float | None
    min_p: float
    p_adjusted: float | None
    min_p_adjusted: float
    p_permutation: float | None
    smallest_effect_percent: float | None
    boots_needed: int | None
    holds_below_boot_sd_percent: float | None
    verdict: str

    @property
    def disagrees(self) -> bool:
        """Whether the permutation test, which could be as sure, is not of the t test's opinion."""
        if self.p_value is None or self.p_permutation is None:
            return False
        least = 2 ** (1 - self.boots) if self.paired else stats.min_p(self.boots_baseline, self.boots)
        return least <= ALPHA and (self.p_value <= ALPHA) != (self.p_permutation <= ALPHA)


@dataclass(frozen=True)
class _Side:
    """The boots of a variant: a value each (log seconds), and the variance within boots over all of them.

    That is None where each boot has one iteration. `noise` is the variance that iterations give a value.
    """

    values: Floats
    within: float | None
    noise: float

    @property
    def between(self) -> float:
        """Return the variance of boots, which agree no better than their own iterations let them."""
        return max(float(self.values.var(ddof=1)), self.noise, LEAST_SD**2)


@dataclass(frozen=True)
class Estimate:
    """A difference of log seconds, its standard error, and the degrees of freedom of that."""

    difference: float
    error: float
    freedom: float
    test: str

    @property
    def p_value(self) -> float:
        """Return the two-sided p-value of no difference."""
        return float(2 * scipy.special.stdtr(self.freedom, -abs(self.difference) / self.error))

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95% interval of the difference."""
        reach = float(scipy.special.stdtrit(self.freedom, (1 + CONFIDENCE) / 2)) * self.error
        return self.difference - reach, self.difference + reach


def spread(boots: Boots) -> Spread:
    """Return how the boots of a variant differ, and the iterations within them."""
    side, sizes = _side(list(boots.values())), [len(seconds) for seconds in boots.values()]
    several = len(sizes) > 1
    return Spread(
        len(sizes),
        (min(sizes), max(sizes)),
        100 * float(side.values.std(ddof=1)) if several else None,
        None if side.within is None else 100 * math.sqrt(side.within),
    )


def estimate(baseline: Sequence[Sequence[float]], variant: Sequence[Sequence[float]]) -> Estimate:
    """Hold boots against other boots, two or more a side: Welch's t test of their values.

    Two against two have Student's two degrees of freedom instead of Welch's one to two: with the floor of
    `_Side.between` that is on the safe side, and Welch's would find half the seconds in 90% of cases only.
    """
    sides = [_side(baseline), _side(variant)]
    parts = [side.between / len(side.values) for side in sides]
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(side.values) - 1) for part, side in zip(parts, sides, strict=True)
    )
    freedom = max(freedom, 2.0) if len(baseline) == len(variant) == 2 else freedom
    difference = float(sides[1].values.mean() - sides[0].values.mean())
    return Estimate(difference, math.sqrt(sum(parts)), freedom, WELCH)


def estimate_pairs(baseline: Sequence[Sequence[float]], variant: Sequence[Sequence[float]]) -> Estimate:
    """Hold two variants against each other that were measured in the same boots, two or more."""
    sides = [_side(baseline), _side(variant)]
    differences = sides[1].values - sides[0].values
    noise = sum(side.noise for side in sides)
    variance = max(float(differences.var(ddof=1)), noise, LEAST_SD**2)
    error = math.sqrt(variance / len(differences))
    return Estimate(float(differences.mean()), error, len(differences) - 1, PAIRED)


def compare_all(baseline: Boots, variants: Sequence[Boots]) -> list[Effect]:
    """Hold the boots of several variants against the baseline's, all of positive seconds.

    The chance that any of them is wrongly called faster or slower stays within `ALPHA`: p-values are
    adjusted by Holm's method (Scand. J. Statist. 6, 1979), and so are the smallest possible ones.
    """
    effects = [_effect(baseline, variant, len(variants)) for variant in variants]
    tested = [effect for effect in effects if effect.p_value is not None]
    adjusted = iter(stats.holm([effect.p_value or 0.0 for effect in tested]))
    smallest = iter(stats.holm([effect.min_p for effect in tested]))
    return [
        _judged(effect, next(adjusted), next(smallest)) if effect.p_value is not None else effect
        for effect in effects
    ]


def smallest_effect(boots: NDArray[np.int64], variants: int = 1, paired: bool = False) -> Floats:
    """Return which effect so many boots a side find nine times of ten, as a multiple of a boot's spread.

    With several VARIANTS the first of them that is found needs Holm's strictest level.
    """
    cost, offset, two = (PAIRS_COST, PAIRS_OFFSET, TWO_PAIRS) if paired else (COST, OFFSET, TWO_BOOTS)
    freedom = (boots - 1) * (1 if paired else 2)
    strict, plain = (scipy.special.stdtrit(freedom, 1 - ALPHA / 2 / number) for number in (variants, 1))
    plain_multiple = np.where(boots == 2, two, np.sqrt(cost / np.maximum(boots - offset, 0.1)))
    multiple: Floats = plain_multiple * strict / plain
    return multiple


@cache
def _multiples(variants: int, paired: bool) -> Floats:
    """Return smallest_effect() of two boots a side and of each number up to the most."""
    return smallest_effect(np.arange(2, MOST_BOOTS + 1), variants, paired)


def permutation_p(baseline: Floats, variant: Floats, paired: bool) -> float:
    """Return the two-sided p-value of the difference of means if boots are dealt anew: exact, unless many."""
    deals = _deals(len(baseline), len(variant), paired)
    found = deals @ (variant - baseline if paired else np.concatenate((variant, baseline)))
    # The first deal is the one that was measured; rounding must not tell equal ones apart.
    slack = 1e-9 * max(float(np.abs(found).max()), LEAST_SD)
    tails = (found <= found[0] + slack).mean(), (found >= found[0] - slack).mean()
    return float(min(1.0, 2 * min(tails)))


@cache
def _deals(n_baseline: int, n_variant: int, paired: bool) -> Floats:
    """Return the weights of the values in a difference of means, a row for each way to deal the boots.

    In pairs the two values of a boot change places. Above `MAX_PERMUTATIONS` ways, `DRAWN` seeded ones.
    """
    measured = np.full(n_variant, 1 / n_variant)
    if not paired:
        measured = np.concatenate((measured, np.full(n_baseline, -1 / n_baseline)))
    number = 2.0 ** min(n_variant, 60) if paired else stats.arrangements(n_baseline, n_variant)
    if number > MAX_PERMUTATIONS:
        rng, rows = np.random.default_rng(stats.SEED), np.tile(measured, (DRAWN, 1))
        rows = rows * rng.choice((-1, 1), rows.shape) if paired else rng.permuted(rows, axis=1)
        return np.vstack((measured, rows))
    if paired:
        signs = itertools.product((1, -1), repeat=n_variant)
        return np.array([measured * one for one in signs])
    chosen = list(itertools.combinations(range(n_baseline + n_variant), n_variant))
    rows = np.full((len(chosen), n_baseline + n_variant), -1 / n_baseline)
    np.put_along_axis(rows, np.array(chosen), 1 / n_variant, axis=1)
    return rows


def _side(boots: Sequence[Sequence[float]]) -> _Side:
    logs = [np.log(np.asarray(seconds, np.float64)) for seconds in boots]
    sizes = np.array([len(one) for one in logs])
    freedom = int(sizes.sum()) - len(logs)
    within = sum(float(((one - one.mean()) ** 2).sum()) for one in logs) / freedom if freedom else None
    costs = np.where(sizes > 2, MEDIAN_COST, 1.0) / sizes
    return _Side(
        np.array([statistics.median(one.tolist()) for one in logs]),
        within,
        (within or 0.0) * float(costs.mean()),
    )


def _effect(baseline: Boots, variant: Boots, variants: int) -> Effect:
    """Return the effect of one of several variants, with the verdict for what is not tested."""
    shared = [name for name in baseline if name in variant]
    pairs = len(shared) >= 2 or len(baseline) == len(variant) == len(shared)
    base, other = (
        [seconds[name] for name in (shared if pairs else seconds)] for seconds in (baseline, variant)
    )
    value, value_other = _side(base).values, _side(other).values
    average, average_other = (
        np.concatenate([np.asarray(one, np.float64) for one in side.values()]).mean()
        for side in (baseline, variant)
    )
    difference = float(value_other.mean() - value.mean())
    number = min(len(base), len(other))
    interval = test = p_value = found = needed = permuted = None
    min_p = 0.0 if number > 1 else 1.0
    if number > 1:
        made = (estimate_pairs if pairs else estimate)(base, other)
        low, high = made.interval
        interval = Interval(_decrease(high), _decrease(low), made.test)
        test, p_value = made.test, made.p_value
        unit = made.error * math.sqrt(number / (1 if pairs else 2))
        uneven = UNEVEN_COST if number == 2 and len(base) != len(other) else 1
        found = _decrease(-unit * uneven * float(smallest_effect(np.array([number]), variants, pairs)[0]))
        enough = unit * _multiples(variants, pairs) <= -math.log1p(-ASKED_PERCENT / 100)
        needed = 2 + int(enough.argmax()) if enough.any() else None
        if number >= PERMUTED_BOOTS and max(len(base), len(other)) <= MOST_BOOTS:
            permuted = permutation_p(value, value_other, pairs)
    elif pairs:
        within = stats.compare(base[0], other[0])
        interval, test, p_value, min_p = within.interval_percent, within.test, within.p_value, within.min_p
    return Effect(
        boots=len(other),
        boots_baseline=len(base),
        paired=pairs,
        decrease_percent=float(100 * (1 - average_other / average)),
        median_decrease_percent=_decrease(difference),
        interval_percent=interval,
        speedup=math.exp(-difference),
        test=test,
        p_value=p_value,
        min_p=min_p,
        p_adjusted=p_value,
        min_p_adjusted=min_p,
        p_permutation=permuted,
        smallest_effect_percent=found,
        boots_needed=needed,
        holds_below_boot_sd_percent=None if p_value is not None else 100 * ONE_BOOT_SHARE * abs(difference),
        verdict=ONE_BOOT,
    )


def _judged(effect: Effect, p_adjusted: float, min_p_adjusted: float) -> Effect:
    """Return an effect that was tested with its verdict. Lower seconds are faster."""
    if min_p_adjusted > ALPHA:
        verdict = stats.TOO_FEW
    elif p_adjusted > ALPHA:
        verdict = stats.NO_DIFFERENCE
    else:
        verdict = stats.FASTER if effect.speedup > 1 else stats.SLOWER
        verdict = f"{verdict} {WITHIN}" if effect.boots == 1 else verdict
    return replace(effect, p_adjusted=p_adjusted, min_p_adjusted=min_p_adjusted, verdict=verdict)


def _decrease(difference: float) -> float:
    """Return a difference of log seconds as a decrease in percent."""
    return -100 * math.expm1(difference)


def outliers(boots: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Return boot and position of values far from the median of their own boot, in time order.

    Among several boots the middle value of each is left out: it is its own median, and many distances of
    nothing would make all others look far.
    """
    places, distances = [], []
    for number, seconds in enumerate(boots):
        distance = np.log(np.asarray(seconds, np.float64))
        distance -= np.median(distance)
        middle = int(np.abs(distance).argmin()) if len(boots) > 1 and len(seconds) % 2 else None
        kept = [at for at in range(len(seconds)) if at != middle]
        places += [(number, at) for at in kept]
        distances += list(distance[kept])
    return [places[at] for at in stats.outliers(distances)]
