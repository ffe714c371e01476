"""What SMT switches leave behind is told from what comes and goes by itself."""

from typing import Any

import pytest

from kernel_qualify.judge import leaks

HELD = {"slab filp": 400, "slab dentry": 5000, "kB Percpu": 4096, "threads cpuhp/N": 16, "interrupts": 50}


def record(kind: str, rounds: int, **more: int) -> dict[str, Any]:
    """An inventory after ROUNDS, with so much MORE of some counts; `slab_filp` is "slab filp"."""
    held = dict(HELD)
    for name, grown in more.items():
        held[name.replace("_", " ")] = held.get(name.replace("_", " "), 0) + grown
    return {"kind": kind, "rounds": rounds, "held": held}


SLABS = {"slab filp": 16, "slab dentry": 21, "slab new": 256}


def script(middle: dict[str, int], last: dict[str, int], planted: int = 3500) -> list[dict[str, Any]]:
    """The records of a thousand switches that left so much more half-way and at the end."""
    return [
        {"kind": "machine", "present": [0, 1], "slabs": SLABS},
        record("inventory", 0),
        record("inventory", 250, **middle),
        record("inventory", 500, **last),
        record("planted", 250, **(last | {"slab_filp": last.get("slab_filp", 0) + planted})),
        {"kind": "end", "online": [0, 1]},
    ]


def test_what_stays_as_it_was_is_no_leak() -> None:
    assert leaks.problems(script({}, {})) == []
    assert leaks.report(script({}, {})) == ["1000 switches; 5 counts before and after"]


@pytest.mark.parametrize(
    ("middle", "last"),
    [
        pytest.param({"slab_dentry": 300}, {"slab_dentry": 310}, id="settles"),
        pytest.param({"slab_dentry": 100}, {"slab_dentry": 200}, id="less than one for each switch"),
        pytest.param({"slab_new": 512}, {"slab_new": 1024}, id="two slabs for each half"),
        pytest.param({"kB_Percpu": 64}, {"kB_Percpu": 64}, id="one more page for each CPU"),
        pytest.param({"slab_dentry": -4000}, {"slab_dentry": -10}, id="was given back for a time"),
    ],
)
def test_what_comes_and_goes_by_itself_is_no_leak(middle: dict[str, int], last: dict[str, int]) -> None:
    assert leaks.problems(script(middle, last)) == []


@pytest.mark.parametrize(
    ("middle", "last", "problem"),
    [
        ({"slab_filp": 250}, {"slab_filp": 500}, "slab filp grows by 1 for each switch off and on"),
        ({"slab_new": 3500}, {"slab_new": 7000}, "slab new grows by 14 for each switch off and on"),
        ({"kB_Percpu": 250}, {"kB_Percpu": 400}, "kB Percpu grows by 0.6 for each switch off and on"),
        ({}, {"interrupts": 1}, "interrupts: 50 before the switches, 51 after them"),
        ({}, {"threads_cpuhp/N": -1}, "threads cpuhp/N: 16 before the switches, 15 after them"),
        ({}, {"threads_new": 1}, "threads new: 0 before the switches, 1 after them"),
    ],
)
def test_what_is_left_behind_is_named(middle: dict[str, int], last: dict[str, int], problem: str) -> None:
    assert leaks.problems(script(middle, last)) == [problem]


def test_a_test_that_does_not_see_the_planted_leak_proves_nothing() -> None:
    assert leaks.problems(script({}, {}, planted=100)) == [
        "a file that is left open for each CPU that went off was not noticed"
    ]


def test_a_script_that_ended_early_and_a_cpu_that_stayed_away_are_problems() -> None:
    assert leaks.problems(script({}, {})[:3]) == ["the script did not reach its end"]
    away = [*script({}, {})[:-1], {"kind": "end", "online": [0]}]
    assert leaks.problems(away) == ["CPUs [1] are not online at the end"]


def test_the_report_has_what_changed() -> None:
    lines = leaks.report(script({}, {"slab_dentry": -10, "threads_new": 2}))
    assert lines[1:] == ["  slab dentry: 5000 to 4990", "  threads new: 0 to 2"]
