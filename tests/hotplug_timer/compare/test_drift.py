import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_timer.compare.drift import FALSE_ALARMS, MIN_SAMPLES, drifts

STEADY = [2.0, 2.2, 1.9, 2.1, 2.05, 1.95, 2.15, 2.02]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_trend_is_found_with_its_direction_and_size(sign: int) -> None:
    seconds = [10 + sign * 0.2 * at + noise for at, noise in enumerate([0.05, -0.05] * 6)]
    (drift,) = drifts([[seconds]])
    assert drift is not None
    assert drift.change_percent == pytest.approx(100 * sign * 2.2 / np.median(seconds), rel=0.1)
    assert drift.p_value < 0.001


def test_no_trend_where_there_is_none_or_too_little_to_tell() -> None:
    assert drifts([[STEADY], [[1.0] * 9], [[1.0, 2.0, 3.0, 4.0, 5.0]], []]) == [None] * 4
    assert drifts([]) == []


def test_a_sure_but_tiny_trend_is_not_worth_a_warning() -> None:
    assert drifts([[[10 + 0.001 * at for at in range(20)]]]) == [None]


def test_a_single_outlier_is_no_trend() -> None:
    assert drifts([[[*STEADY, 90.0]]]) == [None]


@pytest.mark.slow
@pytest.mark.parametrize("size", [MIN_SAMPLES, 10, 40])
@pytest.mark.parametrize("digits", [1, 6])
def test_false_alarms_are_as_rare_as_stated(size: int, digits: int) -> None:
    """Four series without a trend, skewed and with ties: how often is there any warning?"""
    rng = np.random.default_rng(7)
    rounds = 400
    alarms = sum(
        any(drifts([[np.round(0.2 + rng.gamma(4, 0.5, size), digits).tolist()] for _ in range(4)]))
        for _ in range(rounds)
    )
    # Three standard deviations above the rate that is stated.
    assert alarms / rounds < FALSE_ALARMS + 3 * (FALSE_ALARMS * (1 - FALSE_ALARMS) / rounds) ** 0.5


def test_a_difference_between_boots_is_no_trend_and_a_trend_within_them_is_one() -> None:
    """The later boots are slower: taken as one series they drift."""
    boots = [[seconds + shift for seconds in STEADY[:5]] for shift in (0, 1, 2, 3)]
    assert drifts([boots]) == [None]
    assert drifts([[[seconds for boot in boots for seconds in boot]]]) != [None]
    (drift,) = drifts([[[10, 10.5, 11, 11.6, 12], [5, 5.3, 5.5, 5.9, 6]]])
    assert drift is not None
    assert drift.change_percent == pytest.approx(18, abs=2)


@pytest.mark.slow
def test_boots_that_differ_seldom_look_like_drift() -> None:
    """Four rows of four boots, boots as different as iterations: warnings at most in 8% of comparisons."""
    rng = np.random.default_rng(8)
    rounds = 1000
    alarms = sum(
        any(drifts([np.exp(rng.normal(0, 0.05, (4, 1)) + rng.normal(0, 0.05, (4, 5))) for _ in range(4)]))
        for _ in range(rounds)
    )
    sys.stdout.write(f"\nboots that differ look like drift in {100 * alarms / rounds:.1f}% of comparisons")
    assert alarms / rounds <= 0.08


def test_a_long_series_keeps_its_trend() -> None:
    rng = np.random.default_rng(7)
    seconds = 10 + np.linspace(0, 1, 20_000) + rng.normal(0, 1, 20_000)
    (drift,) = drifts([[seconds.tolist()]])
    assert drift is not None
    assert drift.change_percent == pytest.approx(9.5, abs=1)


@given(st.lists(st.lists(st.lists(st.floats(1e-9, 1e9), max_size=8), max_size=3), max_size=4))
def test_any_series_has_an_answer(series: list[list[list[float]]]) -> None:
    found = drifts(series)
    assert len(found) == len(series)
    assert all(np.isfinite(drift.change_percent) for drift in found if drift)
