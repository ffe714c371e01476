"""Whether a step is found, and noise is not taken for one."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotplug_timer.history.changes import MIN_POINTS, MIN_SEGMENT, changes
from hotplug_timer.history.entry import Conditions, failure
from hotplug_timer.history.series import IMPROVEMENT, INSUFFICIENT, REGRESSION, STEADY, Outlook, look
from tests.samples.histories import DAYS, NOISES, Noise, entry, history, nights

SEEDS = 150
per_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=list(NOISES))


def verdicts(outlook: Outlook) -> list[str]:
    return [series.verdict for series in outlook.series]


@pytest.mark.slow
@per_noise
@pytest.mark.parametrize("step", [1.05, 1 / 1.05], ids=["slower", "faster"])
def test_a_step_of_five_percent_is_found_within_ten_nights(noise: Noise, step: float) -> None:
    """Ten nights after the step it is known, and known to within some nights of where it was."""
    at = DAYS - 30
    found = 0
    for seed in range(SEEDS):
        seconds = nights(seed, noise, count=at + 10, step_at=at, step=step)
        places = [change.at for change in changes(seconds) if (change.percent > 0) == (step > 1)]
        found += any(abs(place - at) <= 5 for place in places)
    assert found >= 0.93 * SEEDS


@pytest.mark.slow
@per_noise
def test_a_step_in_ninety_nights_is_the_verdict(noise: Noise) -> None:
    at = 75
    found = 0
    for seed in range(SEEDS):
        [series] = look(history(nights(seed, noise, step_at=at))).series
        assert series.verdict != IMPROVEMENT
        found += (
            series.verdict == REGRESSION and series.change is not None and abs(series.change.at - at) <= 10
        )
    assert found >= 0.98 * SEEDS


@pytest.mark.slow
@pytest.mark.parametrize("noise", [noise for name, noise in NOISES.items() if name != "resembling"])
def test_noise_alone_raises_no_alarm(noise: Noise) -> None:
    for seed in range(SEEDS):
        assert verdicts(look(history(nights(seed, noise)))) == [STEADY]


@pytest.mark.slow
def test_noise_that_resembles_the_night_before_seldom_raises_one() -> None:
    alarms = sum(
        verdicts(look(history(nights(seed, NOISES["resembling"])))) != [STEADY] for seed in range(SEEDS)
    )
    assert alarms <= 0.02 * SEEDS


@pytest.mark.slow
def test_asking_every_night_raises_no_alarm_either() -> None:
    for name in ("independent", "bad nights"):
        for seed in range(20):
            seconds = nights(seed, NOISES[name])
            assert not any(changes(seconds[:night]) for night in range(MIN_POINTS, DAYS + 1))


def test_three_runs_a_day_are_three_times_the_points() -> None:
    seconds = nights(3, NOISES["bad nights"], count=3 * DAYS, step_at=240)
    [found] = changes(seconds)
    assert abs(found.at - 240) <= 3
    assert found.percent == pytest.approx(5, abs=1.5)
    assert found.before_s == pytest.approx(0.3, rel=0.01)


def test_a_step_there_and_back_is_two_changes() -> None:
    seconds = [one * (1.2 if 40 <= at < 60 else 1) for at, one in enumerate(nights(1, NOISES["independent"]))]
    up, down = changes(seconds)
    assert (up.at, down.at) == (40, 60)
    assert up.percent > 15
    assert down.percent < -10


def test_a_few_odd_nights_are_no_change() -> None:
    seconds = nights(1, NOISES["independent"])
    for at in range(50, 50 + MIN_SEGMENT - 2):
        seconds[at] *= 1.5
    assert changes(seconds) == []


def test_a_series_without_any_noise() -> None:
    assert changes([2.0] * 40) == []
    [found] = changes([2.0] * 40 + [2.2] * 10)
    assert (found.at, found.before_s, found.after_s) == (40, 2.0, 2.2)
    assert found.percent == pytest.approx(10)


def test_a_change_that_is_small_is_passed_by_unless_it_is_asked_for() -> None:
    seconds = [2.0] * 40 + [2.04] * 40
    assert changes(seconds) == []
    assert [change.at for change in changes(seconds, 1.0)] == [40]


@pytest.mark.parametrize("count", [0, 1, MIN_POINTS - 1])
def test_fewer_than_ten_points_are_not_judged(count: int) -> None:
    seconds = [1.0, 9.0] * 5
    assert changes(seconds[:count]) == []
    assert verdicts(look(history(seconds[:count]))) == [INSUFFICIENT] * bool(count)


@pytest.mark.slow
@given(st.lists(st.floats(1e-9, 1e9), max_size=60))
@settings(deadline=None)
def test_any_series_has_its_changes_in_order(seconds: list[float]) -> None:
    places = [0, *(change.at for change in changes(seconds)), len(seconds)]
    if len(places) > 2:
        assert all(after - before >= MIN_SEGMENT for before, after in pairwise(places))
    assert all(math.isfinite(change.percent) and change.p_value <= 0.01 for change in changes(seconds))


def test_an_old_change_is_steady_by_now_and_still_listed() -> None:
    entries = history(nights(2, NOISES["independent"], step_at=40))
    [series] = look(entries).series
    assert series.verdict == STEADY
    assert series.change is None
    assert [change.at for change in series.changes] == [40]
    assert series.level_s == pytest.approx(0.315, rel=0.01)
    assert verdicts(look(entries, recent=60)) == [REGRESSION]


def test_what_was_measured_otherwise_is_a_series_of_its_own() -> None:
    slow = Conditions(**{**vars(entry(0, 1.0).conditions), "rcu_expedited": True})
    entries = [entry(night, 1.0) for night in range(12)]
    entries += [entry(night, 0.5, conditions=slow, variant="patched") for night in range(12, 18)]
    entries += [entry(night, 2.0, variant="stock") for night in range(18, 30)]
    found = look(entries).series
    assert [(one.key.variant, len(one.points), one.verdict) for one in found] == [
        ("patched", 12, STEADY),
        ("patched", 6, INSUFFICIENT),
        ("stock", 12, STEADY),
    ]


def test_a_failed_run_is_no_point_and_is_not_forgotten() -> None:
    entries = history([1.0] * 12)
    entries[4] = entry(4, 99.0, failed="interrupted")
    entries.append(failure("madeup1", "stock", "2026-12-01T02:00:00.000Z", "no SSH"))
    outlook = look(entries)
    [series] = outlook.series
    assert len(series.points) == 11
    assert [one.failed for one in series.failures] == ["interrupted"]
    assert [one.failed for one in outlook.failures] == ["interrupted", "no SSH"]
    assert [one.variant for one in outlook.failed] == ["stock"]
