import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from hotplug_common import stats

SAMPLES = st.lists(st.floats(0.01, 1e4), min_size=1, max_size=7)
#: Few different values, so that ties are the rule.
TIED = st.lists(st.sampled_from([1.0, 1.5, 2.0]), min_size=2, max_size=6)
FEW_RESAMPLES = 199


def arrangement_p(first: list[float], second: list[float]) -> float:
    """Return the two-sided p-value of the rank-sum test by trying every arrangement."""
    pooled = first + second
    ranks = [sum(other < x for other in pooled) + (pooled.count(x) + 1) / 2 for x in pooled]
    observed = sum(ranks[: len(first)])
    sums = [sum(chosen) for chosen in itertools.combinations(ranks, len(first))]
    below = sum(value <= observed + 1e-9 for value in sums)
    above = sum(value >= observed - 1e-9 for value in sums)
    return min(1.0, 2 * min(below, above) / len(sums))


@given(SAMPLES, SAMPLES)
@settings(max_examples=40, deadline=None)
def test_p_is_that_of_all_arrangements(first: list[float], second: list[float]) -> None:
    p_value = stats.p_value_two_sided(np.array(first), np.array(second))
    assert p_value == pytest.approx(arrangement_p(first, second))


@given(TIED, TIED)
@settings(max_examples=40, deadline=None)
def test_p_is_exact_with_ties_too(first: list[float], second: list[float]) -> None:
    p_value = stats.p_value_two_sided(np.array(first), np.array(second))
    assert p_value == pytest.approx(arrangement_p(first, second))


@pytest.mark.parametrize(("n", "smallest"), [(1, 1.0), (2, 1 / 3), (3, 0.10), (4, 0.0286), (5, 0.0079)])
def test_smallest_p_a_sample_size_can_reach(n: int, smallest: float) -> None:
    low, high = np.arange(n) + 1.0, np.arange(n) + 100.0
    assert stats.min_p(n, n) == pytest.approx(smallest, rel=0.01)
    assert stats.p_value_two_sided(low, high) == pytest.approx(stats.min_p(n, n))


def test_three_against_three_is_too_few_however_clear() -> None:
    effect = stats.compare([10.0, 10.1, 10.2], [1.0, 1.1, 1.2])
    assert effect.verdict == stats.TOO_FEW
    assert effect.min_p == pytest.approx(0.10)


def test_lower_is_faster_and_the_decrease_is_of_the_median() -> None:
    """The rows of the published 128-CPU table, with some spread around its averages."""
    spread = np.array([-0.02, -0.01, 0.0, 0.01, 0.02])
    stock, revert, slow = 17.945 * (1 + spread), 10.259 * (1 + spread), 20.0 * (1 + spread)
    effect = stats.compare(stock, revert)
    assert effect.verdict == stats.FASTER
    assert effect.median_decrease_percent == pytest.approx(42.831, abs=0.001)
    assert effect.interval_percent is not None
    assert (
        35 < effect.interval_percent.low < effect.median_decrease_percent < effect.interval_percent.high < 50
    )
    worse = stats.compare(stock, slow)
    assert worse.verdict == stats.SLOWER
    assert worse.median_decrease_percent < 0


def test_noise_shows_no_difference() -> None:
    effect = stats.compare([1.0, 1.2, 1.1, 1.3, 1.15], [1.05, 1.25, 1.12, 1.28, 1.18])
    assert effect.verdict == stats.NO_DIFFERENCE
    assert effect.interval_percent is not None
    assert effect.interval_percent.low < 0 < effect.interval_percent.high


@given(st.lists(st.floats(0.5, 2.0), min_size=4, max_size=6), st.floats(3.0, 50.0))
@settings(max_examples=30, deadline=None)
def test_direction_whatever_the_sample(baseline: list[float], factor: float) -> None:
    scaled = [seconds * factor + 5 for seconds in baseline]
    assert stats.compare(baseline, scaled, FEW_RESAMPLES).verdict == stats.SLOWER
    assert stats.compare(scaled, baseline, FEW_RESAMPLES).verdict == stats.FASTER
    assert stats.compare(baseline, baseline, FEW_RESAMPLES).verdict == stats.NO_DIFFERENCE


@given(SAMPLES, SAMPLES)
@settings(max_examples=40, deadline=None)
def test_every_number_is_finite_and_the_interval_is_one(first: list[float], second: list[float]) -> None:
    effect = stats.compare(first, second, FEW_RESAMPLES)
    assert 0 < effect.p_value <= 1
    assert effect.p_value >= effect.min_p - 1e-12
    assert math.isfinite(effect.median_decrease_percent)
    assert effect.median_decrease_percent < 100
    interval = effect.interval_percent
    assert (interval is None) == (min(len(first), len(second)) < 2)
    if interval is not None:
        assert interval.low <= interval.high < 100
        possible = [100 * (1 - b / a) for a in (min(first), max(first)) for b in (min(second), max(second))]
        assert min(possible) - 1e-6 <= interval.low
        assert interval.high <= max(possible) + 1e-6


@given(TIED, TIED)
@settings(max_examples=40, deadline=None)
def test_ties_never_break_the_interval(first: list[float], second: list[float]) -> None:
    interval = stats.median_decrease_interval(np.array(first), np.array(second), FEW_RESAMPLES)
    assert interval is not None
    assert math.isfinite(interval.low)
    assert math.isfinite(interval.high)
    flat = len(set(first)) == len(set(second)) == 1
    assert (interval.method == "no spread") == flat


def test_bca_falls_back_where_it_is_undefined() -> None:
    base, tied = np.array([2.0, 2.0, 2.0, 2.0, 5.0]), np.array([1.0, 1.0, 1.0, 1.0, 1.0])
    interval = stats.median_decrease_interval(base, tied)
    assert interval is not None
    assert interval.method == "percentile bootstrap"
    usual = stats.median_decrease_interval(
        np.array([1.0, 2.0, 3.0, 4.0, 6.0]), np.array([1.0, 1.5, 1.7, 2.1, 2.4])
    )
    assert usual is not None
    assert usual.method == "BCa bootstrap"


def test_the_same_samples_give_the_same_interval() -> None:
    first, second = [1.0, 1.2, 1.4, 1.1], [2.0, 2.2, 2.1, 2.6]
    assert stats.compare(first, second) == stats.compare(first, second)


def test_summary_of_one_and_of_many() -> None:
    assert stats.summarize([2.0]) == stats.Summary(1, 2.0, 2.0, None, 2.0, 2.0)
    many = stats.summarize([1.0, 2.0, 3.0, 10.0])
    assert (many.mean, many.median, many.minimum, many.maximum) == (4.0, 2.5, 1.0, 10.0)
    assert many.sd == pytest.approx(4.0825, abs=1e-4)


def test_outliers() -> None:
    assert stats.outliers([1.0, 1.1, 0.9, 1.05, 5.0]) == (4,)
    assert stats.outliers([1.0, 1.1, 0.9, 1.05, 1.2]) == ()
    assert stats.outliers([1.0, 1.0, 1.0, 1.0, 9.0]) == ()
    assert stats.outliers([1.0, 9.0]) == ()


def test_large_samples_stay_quick() -> None:
    first = np.linspace(1, 2, 400)
    assert stats.p_value_two_sided(first, first + 1) < 1e-9
    tied = np.round(first, 1)
    assert stats.p_value_two_sided(tied, tied) == pytest.approx(1.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_only_raises_and_keeps_the_order(p_values: list[float]) -> None:
    adjusted = stats.holm(p_values)
    assert all(one <= other <= 1 for one, other in zip(p_values, adjusted, strict=True))
    assert min(adjusted) == pytest.approx(min(1.0, min(p_values) * len(p_values)))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [adjusted[at] for at in order] == sorted(adjusted)


def test_holm_as_in_a_textbook() -> None:
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([0.2]) == [0.2]


def test_the_test_is_exact_up_to_a_size_and_says_when_it_is_not() -> None:
    plain = np.linspace(1, 2, 100)
    assert stats.rank_test(plain, plain + 0.001)[1] == stats.EXACT
    longer = np.linspace(1, 2, 101)
    assert stats.rank_test(longer, longer + 0.001)[1] == stats.ASYMPTOTIC
    assert stats.rank_test(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0]))[1] == stats.EXACT
    tied = np.round(plain, 1)
    assert stats.rank_test(tied, tied)[1] == stats.ASYMPTOTIC
    # Where one gives way to the other they agree.
    shifted = plain + 0.1003
    asymptotic = scipy.stats.mannwhitneyu(plain, shifted, method="asymptotic").pvalue
    assert stats.rank_test(plain, shifted)[0] == pytest.approx(asymptotic, rel=0.05)


@pytest.mark.slow
def test_the_interval_of_large_samples_is_that_of_resampling() -> None:
    rng = np.random.default_rng(5)
    base, other = rng.gamma(4, 0.5, 501), rng.gamma(4, 0.4, 501)
    large = stats.median_decrease_interval(base, other)
    small = stats.median_decrease_interval(base[:500], other[:500])
    assert large is not None
    assert small is not None
    assert large.method == "percentile bootstrap"
    assert (large.low, large.high) == pytest.approx((small.low, small.high), abs=2.0)


@pytest.mark.slow
def test_a_million_samples_are_a_matter_of_seconds() -> None:
    values = np.random.default_rng(5).gamma(4, 0.5, 500_000)
    effect = stats.compare(values, values * 0.99)
    assert (effect.verdict, effect.test, effect.min_p) == (stats.FASTER, stats.ASYMPTOTIC, 0.0)


def test_outliers_of_many_samples_are_not_those_of_chance() -> None:
    values = np.random.default_rng(5).normal(10, 1, 100_000)
    assert stats.outliers(values) == ()
    values[7] = 30
    assert stats.outliers(values) == (7,)
