"""What a switch is made of, and how that grows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_common.timings import Counts
from hotplug_timer.predict.counts import (
    CHUNK,
    Switch,
    assumed_work,
    is_per_cpu,
    learn,
    measured_work,
    work_at,
)
from hotplug_timer.predict.model import (
    CPU_OFF,
    CPU_ON,
    EXPEDITED,
    GRACE,
    POWER_OF,
    REBUILD,
    RENDEZVOUS,
    TERMS,
    Work,
    design_row,
    grace_growth,
)

#: As counted in guests: 2 cores x SMT8 with the stock kernel, then with the series.
STOCK = Counts(14, 29, 0, 14, 14)
PATCHED = Counts(14, 0, 2, 1, 1)


@pytest.mark.parametrize(
    ("cpus", "base", "growth"),
    [(16, 1, 1), (255, 1, 1), (256, 1, 2), (1920, 1, 8), (1920, 3, 10 / 3), (2048, 2, 5), (4096, None, 1)],
)
def test_the_kernel_waits_a_jiffy_longer_for_each_256_cpus(
    cpus: int, base: int | None, growth: float
) -> None:
    assert grace_growth(cpus, base) == pytest.approx(growth)


def test_a_power_is_the_growth_and_both_directions_share_one() -> None:
    powers = {POWER_OF[name]: 0.0 for name in TERMS} | {RENDEZVOUS: 1.0, REBUILD: 2.0}
    kinds = list(TERMS)
    work = dict.fromkeys(kinds, 3.0)
    small = design_row(Work(100, work), kinds, powers)
    large = design_row(Work(1000, work), kinds, powers)
    growth = dict(zip(kinds, large / small, strict=True))
    assert growth[CPU_OFF] == growth[CPU_ON] == growth[EXPEDITED] == 1
    assert growth[GRACE] == 4
    assert growth[RENDEZVOUS] == pytest.approx(10)
    assert growth[REBUILD] == pytest.approx(100)


def test_defaults_are_among_what_is_tried() -> None:
    assert all(term.default in term.tried and term.penalty(term.default) == 0 for term in TERMS.values())


def test_stock_pays_by_the_cpu() -> None:
    work = work_at([STOCK], Switch("off", 1920, 1680, 1), CHUNK)
    assert work.events == {CPU_OFF: 1680, GRACE: 2 * 1680 + 1, EXPEDITED: 0, RENDEZVOUS: 1680, REBUILD: 1680}


def test_what_does_not_grow_is_paid_by_the_chunk() -> None:
    assert not is_per_cpu([PATCHED])
    work = work_at([PATCHED], Switch("off", 1920, 1680, 1), CHUNK)
    assert work.events == {CPU_OFF: 1680, GRACE: 0, EXPEDITED: 54, RENDEZVOUS: 27, REBUILD: 27}
    assert work_at([PATCHED], Switch("on", 1920, 1680, 1), 1680).events[RENDEZVOUS] == 1


def test_one_count_that_grows_is_enough_to_pay_by_the_cpu() -> None:
    """With the series, cpuN/online on still rebuilds for each CPU and waits once."""
    work = work_at([Counts(14, 1, 0, 0, 14)], Switch("on", 1920, 1680, 1), CHUNK)
    assert (work.events[GRACE], work.events[REBUILD], work.events[RENDEZVOUS]) == (1, 1680, 0)


def test_two_sizes_give_a_line() -> None:
    counted = [STOCK, Counts(56, 113, 0, 56, 56)]
    assert work_at(counted, Switch("off", 128, 112, 1), CHUNK).events[GRACE] == pytest.approx(225)


@given(
    st.integers(0, 50), st.integers(0, 9), st.lists(st.integers(1, 3000), min_size=2, max_size=5, unique=True)
)
def test_a_line_is_found_again(fixed: int, each: int, units: list[int]) -> None:
    law = learn([(number, fixed + each * number) for number in units])
    assert law.at(4000) == pytest.approx(fixed + each * 4000, rel=1e-6, abs=1e-6)


@given(st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 5000)), min_size=1, max_size=6))
def test_no_count_is_below_none(points: list[tuple[int, int]]) -> None:
    law = learn(points)
    assert law.fixed >= 0
    assert law.each >= 0


def test_what_nobody_counted_is_one_of_each_and_no_rendezvous_up() -> None:
    off = assumed_work(Switch("off", 400, 350, 1), expedited=False)
    on = assumed_work(Switch("on", 400, 350, 1), expedited=True)
    assert off.kinds == {CPU_OFF, GRACE, RENDEZVOUS, REBUILD}
    assert on.kinds == {CPU_ON, EXPEDITED, REBUILD}
    assert set(off.events.values()) == {350}


def test_a_counted_switch_is_taken_as_counted() -> None:
    work = measured_work(Switch("off", 16, 14, 1), STOCK)
    assert work.events == {CPU_OFF: 14, GRACE: 29, EXPEDITED: 0, RENDEZVOUS: 14, REBUILD: 14}
    assert EXPEDITED not in work.kinds
