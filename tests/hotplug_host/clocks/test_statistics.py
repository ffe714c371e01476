from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hotplug_host.clocks import table, threads
from hotplug_host.clocks.cpus import default_threads
from hotplug_host.clocks.departure import Offset, Sample, departure, jump
from hotplug_host.clocks.threads import ThreadResult
from hotplug_host.errors import ExitCode, ToolError

RATES = st.lists(st.floats(0, 1e12), min_size=1, max_size=50)
SECOND = 1_000_000_000


@given(RATES)
@example([0.0, 0.0])
@example([5e-324, 1e12])
def test_fairness_is_between_one_share_and_all(values: list[float]) -> None:
    index = threads.fairness(values)
    assert 1 / len(values) - 1e-9 <= index <= 1 + 1e-9
    assert math.isclose(threads.fairness(list(reversed(values))), index, rel_tol=1e-9)
    assert 0 <= threads.slowest_share(values) <= 1


@given(st.floats(1e-3, 1e12), st.integers(1, 50))
def test_equal_threads_are_fair(rate: float, number: int) -> None:
    assert math.isclose(threads.fairness([rate] * number), 1)
    assert threads.slowest_share([rate] * number) == 1


@given(st.integers(2, 50))
def test_one_thread_that_has_all_is_the_least_fair(number: int) -> None:
    assert math.isclose(threads.fairness([1.0] + [0.0] * (number - 1)), 1 / number)


def test_a_call_takes_a_thread_its_own_time() -> None:
    both = [ThreadResult(0, 1_000, 2.0, 1.0, False), ThreadResult(1, 3_000, 2.0, 1.0, False)]
    assert threads.seconds_per_call(both) == 4.0 / 4_000
    assert threads.rates(both) == (500.0, 1500.0)


@given(st.integers(1, 5000))
def test_default_threads_double_up_to_the_cpus(cpus: int) -> None:
    numbers = default_threads(cpus)
    assert numbers[-1] == cpus
    assert list(numbers) == sorted(set(numbers))
    assert all(number & (number - 1) == 0 for number in numbers[:-1])


@st.composite
def clocks(draw: st.DrawFn) -> tuple[list[Sample], float]:
    """Samples of a clock of one rate (ppm), each read with delays on both sides."""
    rate = draw(st.floats(-400, 400))
    count = draw(st.integers(4, 60))
    delays = st.tuples(st.integers(0, 50_000), st.integers(0, 50_000))
    samples = []
    for at in range(count):
        reference = 7 * SECOND + at * SECOND // 10
        system = 3 * SECOND + round((reference - 7 * SECOND) * (1 + rate * 1e-6))
        early, late = draw(delays)
        samples.append(Sample(system - early, reference, system + late + 1))
    return samples, rate


@given(clocks())
def test_the_true_rate_is_within_the_uncertainty_and_is_no_jump(clock: tuple[list[Sample], float]) -> None:
    samples, rate = clock
    found = departure(samples, 500)
    rounding = 10 / found.span_s * 1e-3
    assert abs(found.rate_ppm - rate) <= found.uncertainty_ppm + rounding
    assert (found.jumps, found.worst_jump_s) == (0, 0.0)
    assert found.surely_ppm <= abs(rate) + rounding
    assert found.most_ppm >= abs(rate) - rounding


@given(clocks(), st.integers(-2 * SECOND, 2 * SECOND), st.data())
def test_a_jump_is_never_called_larger_than_it_is(
    clock: tuple[list[Sample], float], size: int, data: st.DataObject
) -> None:
    samples, _ = clock
    at = data.draw(st.integers(1, len(samples) - 1))
    late = [Sample(one.before + size, one.reference, one.after + size) for one in samples[at:]]
    found = departure([*samples[:at], *late], 500)
    assert found.jumps <= 1
    assert found.worst_jump_s <= abs(size) / SECOND + 1e-4
    # What the brackets (0.1 ms each) and 900 ppm of 0.1 s leave open is less than a millisecond.
    assert found.jumps == 1 or abs(size) < SECOND // 1000


@given(st.integers(-SECOND, SECOND), st.integers(0, 1000), st.integers(0, 1000))
def test_a_jump_is_one_in_both_directions(size: int, early: int, late: int) -> None:
    before = Sample(-early, 0, late)
    assert jump(before, Sample(size - early, 0, size + late), 500) == max(abs(size) - early - late, 0)


def test_too_few_samples_say_nothing() -> None:
    with pytest.raises(ToolError, match="3 samples of a CPU are too few") as caught:
        departure([Sample(at, at, at) for at in range(3)], 500)
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_a_reference_that_stands_still_is_none() -> None:
    with pytest.raises(ToolError, match="does not advance"):
        departure([Sample(at, 5, at + 1) for at in range(8)], 500)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-1e-7, 1e-7, None),
        (0.0, 0.0, None),
        (2e-6, 3e-6, "CPU 3's clock is at least 2e-06 s ahead of CPU 0's"),
        (-3e-6, -2e-6, "CPU 3's clock is at least 2e-06 s behind CPU 0's"),
        (1e-6, -1e-6, "CPU 3's clock jumped against CPU 0's by 2e-06 s"),
    ],
)
def test_an_offset_is_wrong_when_zero_is_out_of_its_bounds(
    low: float, high: float, words: str | None
) -> None:
    assert Offset(3, 0, low, high).problem == words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (21_543_210.5, "21,543,210"),
        (0.0254, "0.025"),
        (0.00123, "0.0012"),
        (-3.5, "-3.500"),
    ],
)
def test_numbers_are_shown_as_they_are_read(value: float, text: str) -> None:
    assert table.shown(value) == text


def test_a_table_has_medians_and_aligned_columns() -> None:
    text = table.render(
        [("tsc", "scale/vdso/1-thread", [{"us/call": 1.0}, {"us/call": 9.0}, {"us/call": 2.0}])]
    )
    assert text == "clock  operation            n  us/call\ntsc    scale/vdso/1-thread  3        2\n"
