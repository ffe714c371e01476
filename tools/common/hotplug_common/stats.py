"""Statistics for small samples of seconds. Lower is better throughout."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ALPHA = 0.05
CONFIDENCE = 0.95
RESAMPLES = 9999
#: A fixed seed: the same results give the same report.
SEED = 1920
#: Enumerating more arrangements than this takes too long; the normal approximation is good by then.
MAX_ARRANGEMENTS = 200_000
#: The same for samples without ties, by the product of their sizes: 100 against 100 is still exact.
MAX_PAIRS = 10_000
#: Beyond this many samples on a side resampling itself takes too much memory; see `_large_interval`.
MAX_RESAMPLED = 500
#: Iglewicz and Hoaglin's bound for the modified z-score.
OUTLIER_SCORE = 3.5
#: Below this a median absolute deviation says nothing.
OUTLIER_MIN_SAMPLES = 5

EXACT, ASYMPTOTIC = "exact", "asymptotic"
FASTER, SLOWER = "faster", "slower"
NO_DIFFERENCE, TOO_FEW = "no difference shown", "too few samples"


@dataclass(frozen=True)
class Summary:
    """One sample: seconds throughout; `sd` (n - 1) is None for a single value."""

    n: int
    mean: float
    median: float
    sd: float | None
    minimum: float
    maximum: float


@dataclass(frozen=True)
class Interval:
    """A 95% interval and how it was found ("BCa bootstrap", "percentile bootstrap", "no spread")."""

    low: float
    high: float
    method: str


@dataclass(frozen=True)
class Effect:
    """A sample against the baseline's. The decrease is in percent; above 0 is an improvement.

    `min_p` is the smallest p-value samples of these sizes can give at all. `test` is "exact" or "asymptotic".
    """

    median_decrease_percent: float
    interval_percent: Interval | None
    test: str
    p_value: float
    min_p: float
    verdict: str


def summarize(sample: Sequence[float]) -> Summary:
    """Return the summary of a non-empty sample of seconds."""
    values = np.asarray(sample, dtype=np.float64)
    return Summary(
        n=len(values),
        mean=float(values.mean()),
        median=float(np.median(values)),
        sd=float(values.std(ddof=1)) if len(values) > 1 else None,
        minimum=float(values.min()),
        maximum=float(values.max()),
    )


def compare(baseline: Sequence[float], variant: Sequence[float], resamples: int = RESAMPLES) -> Effect:
    """Hold a non-empty sample of positive seconds against the baseline's; all values are independent."""
    base, other = np.asarray(baseline, np.float64), np.asarray(variant, np.float64)
    p_value, test = rank_test(base, other)
    smallest = min_p(len(base), len(other))
    return Effect(
        median_decrease_percent=float(median_decrease(base, other)),
        interval_percent=median_decrease_interval(base, other, resamples),
        test=test,
        p_value=p_value,
        min_p=smallest,
        verdict=verdict(base, other, p_value, smallest),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number by Holm's step-down method, in the same order."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(np.asarray(p_values)[order] * factors))
    return [float(value) for value in adjusted]


def median_decrease(baseline: Floats, variant: Floats, axis: int = -1) -> Floats:
    """Return by how many percent the variant's median is below the baseline's."""
    ratio: Floats = np.median(variant, axis=axis) / np.median(baseline, axis=axis)
    return 100 * (1 - ratio)


def median_decrease_interval(
    baseline: Floats, variant: Floats, resamples: int = RESAMPLES
) -> Interval | None:
    """Return a 95% bootstrap interval of the median decrease; None with fewer than two values a side.

    BCa corrects for bias and skew but is undefined where ties leave its jackknife without spread;
    then the plain percentile interval stands.
    """
    if len(baseline) < 2 or len(variant) < 2:
        return None
    if np.ptp(baseline) == 0 and np.ptp(variant) == 0:
        value = float(median_decrease(baseline, variant))
        return Interval(value, value, "no spread")
    if max(len(baseline), len(variant)) > MAX_RESAMPLED:
        return _large_interval(baseline, variant, resamples)
    for method in ("BCa", "percentile"):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = scipy.stats.bootstrap(
                (baseline, variant),
                median_decrease,
                confidence_level=CONFIDENCE,
                n_resamples=resamples,
                method=method,
                vectorized=True,
                rng=np.random.default_rng(SEED),
            )
        low, high = result.confidence_interval
        if np.isfinite(low) and np.isfinite(high):
            return Interval(float(low), float(high), f"{method} bootstrap")
    return None


def _large_interval(baseline: Floats, variant: Floats, resamples: int) -> Interval:
    """Return the percentile bootstrap's interval without drawing resamples.

    The median of a resample of n is the sample's value at the quantile that the middle one of n
    uniform numbers marks, and that one is Beta distributed (Efron, Ann. Statist. 7, 1979, section 3).
    """
    rng = np.random.default_rng(SEED)
    drawn = []
    for sample in (baseline, variant):
        middle, ordered = (len(sample) + 1) / 2, np.sort(sample)
        quantile = rng.beta(middle, middle, resamples)
        drawn.append(ordered[np.minimum((quantile * len(sample)).astype(np.int64), len(sample) - 1)])
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(100 * (1 - drawn[1] / drawn[0]), (tail, 100 - tail))
    return Interval(float(low), float(high), "percentile bootstrap")


def p_value_two_sided(baseline: Floats, variant: Floats) -> float:
    """Return the two-sided Mann-Whitney p-value, exact (also with ties) unless samples are large."""
    return rank_test(baseline, variant)[0]


def rank_test(baseline: Floats, variant: Floats) -> tuple[float, str]:
    """Return the two-sided Mann-Whitney p-value, and whether it is `EXACT` or `ASYMPTOTIC`."""
    tied = len(np.unique(np.concatenate((baseline, variant)))) < len(baseline) + len(variant)
    size = arrangements(len(baseline), len(variant)) if tied else len(baseline) * len(variant)
    if size > (MAX_ARRANGEMENTS if tied else MAX_PAIRS):
        return float(scipy.stats.mannwhitneyu(baseline, variant, method="asymptotic").pvalue), ASYMPTOTIC
    if not tied:
        return float(scipy.stats.mannwhitneyu(baseline, variant, method="exact").pvalue), EXACT
    return _exact_p_with_ties(baseline, variant), EXACT


def _exact_p_with_ties(baseline: Floats, variant: Floats) -> float:
    ranks = scipy.stats.rankdata(np.concatenate((baseline, variant)))
    if min(len(baseline), len(variant)) == 1:
        # scipy permutes two or more; a single value against the rest is its rank among them.
        alone = ranks[0] if len(baseline) == 1 else ranks[-1]
        return float(min(1.0, 2 * min((ranks <= alone).mean(), (ranks >= alone).mean())))
    result = scipy.stats.permutation_test(
        (ranks[: len(baseline)], ranks[len(baseline) :]),
        _mean_difference,
        vectorized=True,
        n_resamples=np.inf,
        alternative="two-sided",
    )
    return float(result.pvalue)


def arrangements(n_baseline: int, n_variant: int) -> float:
    """Return in how many ways the pooled values could fall to the two samples; inf where that overflows."""
    return float(scipy.special.comb(n_baseline + n_variant, n_baseline))


def min_p(n_baseline: int, n_variant: int) -> float:
    """Return the smallest two-sided p-value these sample sizes can reach: 3 v 3 0.10, 4 v 4 0.029."""
    return min(1.0, 2 / arrangements(n_baseline, n_variant))


def verdict(baseline: Floats, variant: Floats, p_value: float, smallest: float) -> str:
    """Say in words what was shown. Lower seconds are faster."""
    if smallest > ALPHA:
        return TOO_FEW
    if p_value > ALPHA:
        return NO_DIFFERENCE
    ranks = scipy.stats.rankdata(np.concatenate((baseline, variant)))
    return FASTER if ranks[len(baseline) :].mean() < ranks[: len(baseline)].mean() else SLOWER


def outliers(sample: Sequence[float]) -> tuple[int, ...]:
    """Return the positions of values far from the median (modified z-score).

    The bound is Iglewicz and Hoaglin's, and for thousands of values where one of them is as far out by
    chance in one normal sample of twenty.
    """
    values = np.asarray(sample, dtype=np.float64)
    if len(values) < OUTLIER_MIN_SAMPLES:
        return ()
    distance = np.abs(values - np.median(values))
    spread = float(np.median(distance))
    if spread == 0:
        return ()
    bound = max(OUTLIER_SCORE, -scipy.special.ndtri(ALPHA / (2 * len(values))))
    return tuple(int(at) for at in np.flatnonzero(0.6745 * distance / spread > bound))


def _mean_difference(first: Floats, second: Floats, axis: int = -1) -> Floats:
    difference: Floats = first.mean(axis=axis) - second.mean(axis=axis)
    return difference
