"""The judge of hackbench and cyclictest: shown to fail for what can be wrong."""

from pathlib import Path

import pytest

from hotplug_common import stats
from hotplug_common.kernel.series import PATCHED, STOCK
from kernel_qualify import keeping
from kernel_qualify.judge import latencies
from kernel_qualify.judge.latencies import Latency, Run

STEADY = tuple(1.0 + 0.01 * number for number in range(10))
JUMPY = (1.0, 9.0, 2.0, 8.0, 3.0, 7.0)
FEW = STEADY[:6]
"""Where both have the same values, each arrangement of them is counted: of few, there are few."""


def run(before: tuple[float, ...], after: tuple[float, ...], boots: int = 2) -> Run:
    """Both kernels, each with one program."""
    found = (Latency(STOCK, "hackbench", "s", before), Latency(PATCHED, "hackbench", "s", after))
    return Run("6.12", "ppc64le", 2, boots, {}, found)


def times(factor: float) -> tuple[float, ...]:
    """Steady values, all longer by a factor."""
    return tuple(value * factor for value in STEADY)


@pytest.mark.parametrize(("before", "after"), [(FEW, FEW), (STEADY, times(0.5))])
def test_what_is_no_slower_is_well(before: tuple[float, ...], after: tuple[float, ...]) -> None:
    assert latencies.problems(run(before, after)) == []


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (run(STEADY, times(1.2)), "hackbench: slower by 20.0%"),
        (run(JUMPY, JUMPY), "hackbench: the runs differ too much to tell anything"),
        (run(STEADY, STEADY, boots=1), "hackbench: the runs differ too much to tell anything"),
    ],
)
def test_what_is_wrong_is_told(found: Run, problem: str) -> None:
    assert latencies.problems(found) == [problem]


def test_boots_that_differ_are_no_difference_of_kernels() -> None:
    """Taken as forty independent runs, the patched ones are slower."""
    before, after = (
        tuple(value for factor in factors for value in times(factor))
        for factors in ((1.0, 1.1, 1.0, 1.1), (1.1, 1.1, 1.2, 1.0))
    )
    assert stats.compare(before, after).verdict == stats.SLOWER
    assert latencies.problems(run(before, after, boots=4)) == []


def test_records_are_gathered_by_program() -> None:
    records = [
        {"kind": "latency", "program": "hackbench", "unit": "s", "value": value} for value in (1.0, 2.0)
    ]
    assert latencies.latencies(STOCK, records) == [Latency(STOCK, "hackbench", "s", (1.0, 2.0))]


def test_what_is_kept_is_what_was_measured(tmp_path: Path) -> None:
    keeping.save(run(STEADY, JUMPY), tmp_path / "latencies.json")
    assert latencies.load(tmp_path / "latencies.json") == run(STEADY, JUMPY)


def test_the_table_says_how_far_runs_can_tell() -> None:
    (*_, row) = latencies.table([run(STEADY, times(1.2))]).splitlines()
    assert row.startswith(
        "| ppc64le, 2 CPUs | hackbench | 2, 10 | 1.045 s (1 to 1.09) | 1.254 s (1.2 to 1.308) | +20.0% (+"
    )
