"""The judge of the timers' selftests."""

from typing import Any

import pytest

from kernel_qualify.judge import verdicts


def timers(**changes: Any) -> list[dict[str, Any]]:
    """The record of one program that passed, and of one that fails under emulation."""
    passed = {"kind": "timers", "clocksource": "hpet", "program": "nanosleep", "code": 0, "failed": []}
    late = {"kind": "timers", "clocksource": "hpet", "program": "raw_skew", "code": 1, "failed": ["a", "b"]}
    return [passed | changes, late]


def test_the_same_on_both_is_well() -> None:
    assert verdicts.timers_problems(timers(), timers()) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"code": 1}, "nanosleep with hpet: ended with 1, which the stock kernel does not"),
        ({"code": None}, "nanosleep with hpet: took too long, which the stock kernel does not"),
        ({"code": 4}, "nanosleep with hpet: skipped, which the stock kernel does not"),
        ({"failed": ["x"]}, "nanosleep with hpet: failed, which the stock kernel does not: x"),
    ],
)
def test_what_is_worse_is_told(changes: dict[str, Any], problem: str) -> None:
    assert verdicts.timers_problems(timers(), timers(**changes)) == [problem]


def test_what_is_better_is_well() -> None:
    assert verdicts.timers_problems(
        timers(code=1), [*timers()[:1], timers()[1] | {"code": 0, "failed": []}]
    ) == ["nothing passes on the stock kernel, so there is nothing to compare with"]
    better = [timers()[0], timers()[1] | {"failed": ["a"]}]
    assert verdicts.timers_problems(timers(), better) == []


def test_another_part_that_fails_is_worse() -> None:
    other = [timers()[0], timers()[1] | {"failed": ["a", "c"]}]
    assert verdicts.timers_problems(timers(), other) == [
        "raw_skew with hpet: failed, which the stock kernel does not: c"
    ]


def test_what_did_not_run_is_no_proof() -> None:
    assert "did not run the same" in verdicts.timers_problems([], [])[0]
    assert "did not run the same" in verdicts.timers_problems(timers(), timers()[:1])[0]


def test_the_comparison_is_a_table() -> None:
    assert verdicts.timers_table(timers(), timers()[:1])[2:] == [
        "| nanosleep | hpet | passed | passed |",
        "| raw_skew | hpet | ended with 1 (2 parts) | did not run |",
    ]
