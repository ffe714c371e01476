"""Cores that come and go beside SMT switches: each fault that the judge looks for is found."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kernel_qualify.judge import churn

THREADS = 4
BASE = list(range(8))
MORE = list(range(12))


def switches(present: Sequence[int], number: int) -> Iterator[dict[str, Any]]:
    for at in range(number):
        to = ("off", "on")[at % 2]
        online = [cpu for cpu in present if to == "on" or cpu % THREADS == 0]
        yield {
            "kind": "switch",
            "to": to,
            "error": 0,
            "seconds": 0.25 + at,
            "present": list(present),
            "online": online,
        }


def good() -> list[dict[str, Any]]:
    cores = [BASE[:4], BASE[4:]]
    return [
        {"kind": "machine", "present": BASE, "cores": cores},
        *switches(BASE, 4),
        *switches(MORE, 4),
        *switches(BASE, 2),
        {"kind": "end", "online": BASE},
    ]


def test_a_core_that_comes_takes_part_and_goes() -> None:
    assert churn.problems(good(), 1) == []
    assert churn.report(good()) == "10 switches, 2 changes of CPUs; the longest switch took 3.2 s"


def test_a_core_on_its_way_may_have_some_of_its_threads_online() -> None:
    records = good()
    records[5]["online"] = [0, 4, 8, 9]
    assert churn.problems(records, 1) == []


@pytest.mark.parametrize(
    ("at", "changed", "problem"),
    [
        (2, {"error": 16}, "switch 2 (on): error 16"),
        (2, {"online": [0, 1, 2, 3, 4]}, "switch 2 (on): [0, 1, 2, 3, 4] online"),
        (7, {"online": [0, 4, 5, 8]}, "switch 7 (off): [0, 4, 5] online"),
        (11, {"online": BASE[:-1]}, "CPUs [7] are not online at the end"),
    ],
)
def test_what_went_wrong_is_named(at: int, changed: dict[str, Any], problem: str) -> None:
    records = good()
    records[at] |= changed
    assert problem in churn.problems(records, 1)


def test_a_core_that_no_switch_takes_along_is_named() -> None:
    records = good()
    for at in (5, 7):
        records[at]["online"] = [0, 4, 8, 9, 10, 11]
    assert churn.problems(records, 1) == [f"no switch off took all CPUs along with {MORE}"]


def test_cores_that_do_not_come_or_go_are_counted() -> None:
    assert churn.problems(good(), 2) == ["the CPUs of the guest changed 2 times, not 4"]


def test_a_script_that_has_not_ended_is_no_success() -> None:
    assert churn.problems(good()[:-1], 1) == ["the script did not reach its end"]
