"""The judge of the kernel's test of smt/control."""

import json
import signal
from typing import Any

import pytest

from kernel_qualify.judge import ktap, smtcontrol
from tests.kernel_qualify.judge import perfect

Record = dict[str, Any]
FAILED = ["# smt/control: 'on', not 'off'", "# wrongly online: 3", "not ok 1 level off "]


def spoilt(signum: int, **values: object) -> list[Record]:
    """A perfect run, of which the part with this signal has other values."""
    records = perfect.smt_control()
    for record in records:
        if record.get("signal") == signum:
            record.update(values)
    return records


def lines() -> list[str]:
    """What the script prints when all is well."""
    printed: list[str] = perfect.smt_control()[1]["lines"]
    return printed


def test_a_perfect_run_passes() -> None:
    assert smtcontrol.problems(perfect.smt_control()) == []
    assert smtcontrol.problems(json.loads(json.dumps(perfect.smt_control()))) == []


@pytest.mark.parametrize(
    ("signum", "values", "expected"),
    [
        (0, {"exit_code": 1}, "smt/control: exit code 1, not 0"),
        (0, {"exit_code": 4}, "smt/control: exit code 4, not 0"),
        (0, {"lines": []}, "smt/control: 0 plans, not one"),
        (0, {"after": {"online": [0], "control": "on"}}, "smt/control: it left {'online': [0]"),
        (0, {"after": {"online": perfect.PRESENT, "control": "8"}}, "'control': '8'}, not"),
        (0, {"kind": "other"}, "runs until signals [15, 2], not [0, 15, 2]"),
        (signal.SIGTERM, {"kind": "other"}, "runs until signals [0, 2]"),
        (signal.SIGINT, {"kind": "other"}, "runs until signals [0, 15]"),
        # It ended before the signal came.
        (signal.SIGTERM, {"exit_code": 0}, "smt/control, until SIGTERM: exit code 0, not 143"),
        # The signal ended it before it could clean up.
        (signal.SIGINT, {"exit_code": -2}, "smt/control, until SIGINT: exit code -2, not 130"),
        (signal.SIGTERM, {"after": {"online": perfect.PRESENT, "control": "on"}}, "until SIGTERM: it left"),
        (signal.SIGINT, {"after": {"online": perfect.PRESENT, "control": "on"}}, "until SIGINT: it left"),
    ],
)
def test_what_is_wrong_is_told(signum: int, values: Record, expected: str) -> None:
    problems = smtcontrol.problems(spoilt(signum, **values))
    assert any(expected in problem for problem in problems), problems


def test_a_script_that_did_not_reach_its_end_is_noticed() -> None:
    assert "the script did not reach its end" in smtcontrol.problems(perfect.smt_control()[:-1])


def test_a_case_that_failed_is_told_with_what_it_said() -> None:
    heard = [*lines()[:2], *FAILED, *lines()[3:]]
    assert ktap.script_problems(heard, smtcontrol.CASES) == [
        "level off: failed: smt/control: 'on', not 'off'; wrongly online: 3"
    ]
    assert any("level off: failed" in problem for problem in smtcontrol.problems(spoilt(0, lines=heard)))


@pytest.mark.parametrize("name", smtcontrol.CASES)
def test_a_case_that_was_skipped_did_not_run(name: str) -> None:
    heard = [line + "# SKIP" if line.endswith(f" {name} ") else line for line in lines()]
    assert ktap.script_problems(heard, smtcontrol.CASES) == [f"{name}: did not run (SKIP)"]


@pytest.mark.parametrize("name", smtcontrol.CASES)
def test_a_case_that_is_missing_is_noticed(name: str) -> None:
    heard = [line for line in lines() if not line.endswith(f" {name} ")]
    total = len(smtcontrol.CASES)
    assert ktap.script_problems(heard, smtcontrol.CASES) == [
        f"{total - 1} cases, not {total}",
        f"{name}: not there",
    ]


def test_a_script_that_skipped_everything_did_not_run() -> None:
    heard = ["TAP version 13", "1..0 # SKIP must be run as root"]
    assert ktap.script_problems(heard, smtcontrol.CASES) == ["did not run: must be run as root"]


def test_two_plans_are_no_plan() -> None:
    assert ktap.script_problems([*lines(), "1..18"], smtcontrol.CASES) == ["2 plans, not one"]
