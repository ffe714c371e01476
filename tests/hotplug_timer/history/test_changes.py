"""Whether a step is found, and noise is not taken for one."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotplug_timer.history import changes as ways
from hotplug_timer.history.changes import CONFIRMED, CREEP, KERNEL, MIN_POINTS, STEP, Change, Nights, search
from hotplug_timer.history.entry import Conditions, Entry, failure
from hotplug_timer.history.noise import MIN_SEGMENT, split
from hotplug_timer.history.series import (
    INSUFFICIENT,
    REGRESSION,
    STEADY,
    SUSPECT,
    Outlook,
    look,
    suspects,
)
from tests.samples.histories import CONDITIONS, DAYS, NOISES, entry, history, nights, resembling

INDEPENDENT = NOISES["independent"]


def changes(
    seconds: Sequence[float], min_change: float = 3.0, boots: Sequence[int] = (), kernels: Sequence[int] = ()
) -> list[Change]:
    return list(search(Nights(seconds, boots, kernels), min_change).changes)


def verdicts(outlook: Outlook) -> list[str]:
    return [series.verdict for series in outlook.series]


def boots(count: int, *, several_at: int) -> list[int]:
    """One boot a night, and four on one of them."""
    return [4 if night == several_at else 1 for night in range(count)]


def test_a_new_kernel_is_a_known_place_and_needs_less_to_be_called() -> None:
    """The step is once the noise, and twenty nights old."""
    seconds = nights(1, INDEPENDENT, count=80, step_at=60, step=1.05, sd=0.05)
    assert changes(seconds) == []
    [found] = changes(seconds, kernels=[60])
    assert (found.at, found.kind) == (60, KERNEL)
    assert changes(seconds, kernels=[20]) == []


def test_of_several_kernels_the_one_that_did_it_is_named() -> None:
    """Twenty nights of the kernel before it have the step in them, too."""
    for seed in range(10):
        seconds = nights(seed, INDEPENDENT, step_at=70, step=1.1, sd=0.03)
        [found] = changes(seconds, kernels=range(7, DAYS, 7))
        assert (found.at, found.kind) == (70, KERNEL)


def test_a_step_that_begins_close_to_a_kernel_is_that_kernels() -> None:
    seconds = nights(1, INDEPENDENT, step_at=62, step=1.1)
    assert [(one.at, one.kind) for one in changes(seconds)] == [(62, STEP)]
    assert [(one.at, one.kind) for one in changes(seconds, kernels=[60])] == [(60, KERNEL)]
    assert [(one.at, one.kind) for one in changes(seconds, kernels=[40])] == [(62, STEP)]


def test_many_kernels_share_the_level() -> None:
    """A step that one kernel is called for is not called among one kernel a night."""
    seconds = nights(1, INDEPENDENT, count=80, step_at=60, step=1.05, sd=0.05)
    assert changes(seconds, kernels=[60])
    assert changes(seconds, kernels=range(1, 80)) == []


def test_a_kernel_is_looked_at_after_five_nights_and_not_on_each_night_after() -> None:
    """What twenty nights do not show, a lucky night among them does not make."""
    level, odd = [1.0, 1.01, 0.99, 1.02, 0.98] * 8, [1.2, 1.21, 1.19, 1.22]
    assert changes(level + odd, kernels=[40]) == []
    assert [one.kind for one in changes([*level, *odd, 1.18], kernels=[40])] == [KERNEL]
    looked: list[int] = []

    def spy(before: Sequence[float], after: Sequence[float]) -> tuple[float, str]:
        looked.append(len(after))
        return 1.0, ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ways, "rank_test", spy)
        assert changes([*level, *odd, *odd, *odd], kernels=[40]) == []
    assert {5, 10} <= set(looked)
    assert not {6, 7, 8, 9} & set(looked)


def test_nights_that_resemble_each_other_are_less_sure() -> None:
    """With as much noise in each night, what is found has to be larger."""
    alone, together = (
        split(np.log(nights(4, noise, count=2000, sd=0.05)))[0] for noise in (INDEPENDENT, resembling)
    )
    assert alone.sd == pytest.approx(0.05, rel=0.06)
    assert together.sd == pytest.approx(0.05, rel=0.06)
    assert alone.correlation < 0.05
    assert together.correlation == pytest.approx(0.3, abs=0.06)
    assert together.long_run == pytest.approx(0.05 * math.sqrt(1.3 / 0.7), rel=0.1)


def test_a_step_is_no_noise() -> None:
    plain, stepped = (split(np.log(nights(4, INDEPENDENT, step_at=45, step=step)))[0] for step in (1.0, 1.2))
    assert stepped.long_run == pytest.approx(plain.long_run, rel=0.1)


SUSPECTED = [*nights(1, INDEPENDENT, count=40), 0.36]


def test_one_night_far_off_is_suspect_and_no_change_yet() -> None:
    found = search(Nights(SUSPECTED))
    assert (found.suspect, found.changes) == (True, ())
    assert not search(Nights([*SUSPECTED[:-1], 0.3])).suspect
    assert not search(Nights([*SUSPECTED[:-1], 0.25])).suspect, "a fast one needs no boots"
    assert not search(Nights(SUSPECTED), 25).suspect
    assert not search(Nights(SUSPECTED[-30:])).suspect, "29 nights tell little about the noise"
    assert search(Nights(SUSPECTED[-31:])).suspect
    assert not search(Nights([0.4, *SUSPECTED[1:]])).suspect, "there was a slower one"


@pytest.mark.parametrize(
    ("next_s", "number", "kinds"),
    [(0.35, 4, [CONFIRMED]), (0.35, 3, [CONFIRMED]), (0.35, 2, []), (0.301, 4, []), (0.301, 1, [])],
)
def test_the_boots_of_the_next_night_confirm_a_suspect_one_or_drop_it(
    next_s: float, number: int, kinds: list[str]
) -> None:
    seconds = [*SUSPECTED, next_s]
    found = search(Nights(seconds, [*[1] * 41, number]))
    assert [(one.at, one.kind) for one in found.changes] == [(40, kind) for kind in kinds]
    assert found.suspect == (number == 2), "too few boots: it stays open"


@pytest.mark.slow
def test_what_was_confirmed_lasts_as_long_as_the_nights_hold_it() -> None:
    held, gone = ([*SUSPECTED, *[one] * 3] for one in (0.35, 0.3))
    number = boots(44, several_at=41)
    assert [one.kind for one in changes(held, boots=number)] == [CONFIRMED]
    gone[41] = 0.35
    gone += [0.3]
    assert changes(gone, boots=[*number, 1]) == []
    # By then the nights alone show it.
    [found] = changes([*held, *[0.35] * 6], boots=[*number, *[1] * 6])
    assert (found.at, found.kind) == (40, STEP)


def test_a_creep_is_found_where_no_step_is() -> None:
    noise = nights(0, INDEPENDENT, sd=0.06)
    [creep] = changes([one * 1.12 ** (night / (DAYS - 1)) for night, one in enumerate(noise)])
    assert creep.kind == CREEP
    assert creep.at == 0
    assert creep.percent == pytest.approx(12, abs=6)
    assert creep.percent == pytest.approx(100 * (creep.after_s / creep.before_s - 1))
    assert creep.p_value <= 0.001


def test_a_creep_that_goes_on_is_news_again() -> None:
    old = Change(0, 1.0, 1.1, 10.0, 1e-5, CREEP)
    assert old.is_same(old, 3.0)
    assert not replace(old, percent=14.0).is_same(old, 3.0)
    assert not replace(old, kind=STEP).is_same(old, 3.0)
    assert not old.is_same(replace(old, kind=STEP), 3.0)
    assert replace(old, at=4, kind=STEP, percent=14.0).is_same(replace(old, kind=KERNEL), 3.0)


def test_a_step_there_and_back_is_two_changes() -> None:
    seconds = [one * (1.2 if 40 <= at < 60 else 1) for at, one in enumerate(nights(1, INDEPENDENT))]
    up, down = changes(seconds)
    assert (up.at, down.at) == (40, 60)
    assert up.percent > 15
    assert down.percent < -10


def test_a_few_odd_nights_are_no_change() -> None:
    seconds = nights(1, INDEPENDENT)
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
    entries = history(nights(2, INDEPENDENT, step_at=42))
    [series] = look(entries).series
    assert series.verdict == STEADY
    assert series.change is None
    assert [change.at for change in series.changes] == [42]
    assert series.level_s == pytest.approx(0.315, rel=0.01)
    assert verdicts(look(entries, recent=60)) == [REGRESSION]


def test_a_change_that_took_long_to_be_found_is_told_when_it_is() -> None:
    """The step is older than twenty nights by then."""
    seconds = [round(one, 4) for one in nights(7, INDEPENDENT, step_at=60, step=1.07, sd=0.05)]
    first = next(count for count in range(61, 91) if changes(seconds[:count]))
    assert first > 80
    entries = [replace(one, kernel="6.12") for one in history(seconds)]
    [series] = look(entries[:first]).series
    assert series.verdict == REGRESSION
    assert series.change is not None
    assert series.change.at == pytest.approx(60, abs=5)


def test_a_series_tells_which_step_it_would_find() -> None:
    for sd, anywhere in ((0.05, 10.5), (0.02, 4.1)):
        [series] = look(history(nights(6, INDEPENDENT, count=400, sd=sd))).series
        assert series.found is not None
        assert series.found.anywhere_percent == pytest.approx(anywhere, rel=0.25)
        assert series.found.at_kernel_percent == pytest.approx(max(anywhere / 2, 3.0), rel=0.25)
    [flat] = look(history([1.0] * 20)).series
    assert flat.found is not None
    assert flat.found.anywhere_percent == 3.0
    assert look(history([1.0] * 9)).series[0].found is None


def run_of(night: int, seconds: float, *, hour: int, kernel: str = "6.12", boot: str | None = None) -> Entry:
    made = replace(entry(night, seconds), kernel=kernel, boot=boot, run_id=f"{night}-{hour}")
    result = replace(made.results[0], spread_percent=float(hour + 3), counts={"chunks": float(hour)})
    started = (made.time + timedelta(hours=hour)).isoformat().replace("+00:00", "Z")
    return replace(made, started=started, results=(result,))


def test_the_boots_of_a_night_are_one_point() -> None:
    runs = [
        run_of(0, 1.0, hour=0, boot="a"),
        run_of(0, 1.1, hour=1, boot="a"),
        run_of(0, 1.5, hour=2, boot="b"),
        run_of(0, 1.3, hour=3, boot="c"),
        run_of(0, 9.0, hour=4, boot="d", kernel="6.13"),
        run_of(1, 2.0, hour=0),
        run_of(1, 3.0, hour=1),
        run_of(1, 4.0, hour=12),
    ]
    [series] = look(runs).series
    assert [(one.run_id, one.result.median_s, one.boots, one.result.n) for one in series.points] == [
        ("0-0", 1.3, 3, 40),
        ("0-4", 9.0, 1, 10),
        ("1-0", 2.5, 2, 20),
        ("1-12", 4.0, 1, 10),
    ]
    assert series.points[0].result.counts == {"chunks": 1.5}
    assert series.points[0].result.spread_percent == pytest.approx(math.sqrt((9 + 16 + 25 + 36) / 4))
    assert look([entry(0, 1.0)]).series[0].last.result == entry(0, 1.0).results[0]


def test_what_was_suspect_last_night_is_so_until_tonight_is_over() -> None:
    entries = history(SUSPECTED)
    assert verdicts(look(entries)) == [SUSPECT]
    tonight = entries[-1].time + timedelta(hours=24)
    assert suspects(entries, "madeup1", tonight) == ["patched"]
    assert suspects(entries, "another", tonight) == []
    assert suspects(entries, "madeup1", entries[-1].time + timedelta(hours=11)) == [], "that is tonight's own"
    boots_of_tonight = [replace(entry(41, 0.301), run_id=f"again-{at}", boot=f"boot {at}") for at in range(4)]
    assert suspects([*entries, *boots_of_tonight], "madeup1", tonight + timedelta(hours=3)) == ["patched"]
    after = [*entries, *boots_of_tonight]
    assert verdicts(look(after)) == [STEADY]
    assert suspects(after, "madeup1", tonight + timedelta(hours=24)) == []
    larger = [entry(41, 0.3, conditions=replace(CONDITIONS, cpus=32))]
    assert suspects([*entries, *larger], "madeup1", tonight + timedelta(hours=24)) == [], "it has ended"
    confirmed = [*entries, *(replace(one, results=entries[-1].results) for one in boots_of_tonight)]
    [series] = look(confirmed).series
    assert (series.verdict, series.change and series.change.kind) == (REGRESSION, CONFIRMED)


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
