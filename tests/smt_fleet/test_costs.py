"""From what predict says of a host's costs to the minutes that a run takes there."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hotplug_host.preflight.judge import WARNINGS
from smt_fleet.costs import (
    BESIDE_MIN,
    BOOT_MIN,
    Costs,
    Forecast,
    Job,
    Kernel,
    Range,
    Seen,
    costs_in,
    forecast,
    seen_in,
)

#: Of an LPAR of 1920 CPUs on which smt=off takes an hour.
SECONDS = {
    ("smt=off", "stock"): (2400.0, 3600.0),
    ("smt=off", "expedited"): (200.0, 300.0),
    ("smt=off", "patched"): (4.0, 60.0),
    ("smt=on", "stock"): (1200.0, 1800.0),
    ("smt=on", "expedited"): (100.0, 600.0),
    ("smt=on", "patched"): (2.0, 6.0),
}
RELEASE = "6.4.0-vendor"
LPAR = Seen(RELEASE, 1920, 1920)


def answer(**changes: Any) -> dict[str, Any]:
    """What predict prints, as far as it is read."""
    rows = [
        {"operation": operation, "kernel": "", "kind": kind, "low_s": low, "high_s": high}
        for (operation, kind), (low, high) in SECONDS.items()
    ]
    return {"kernel": RELEASE, "cpus": 1920, "emulated": False, "predictions": rows, **changes}


def costs(**changes: Any) -> Costs:
    return costs_in("costs/lpar1.jsonl", answer(**changes))


def minutes(job: Job, seen: Seen | None = LPAR) -> int | None:
    return forecast("lpar1", costs(), job, seen).minutes


def test_the_lines_of_one_kernel_are_one_range() -> None:
    """Whether firmware stops CPUs one at a time is not known beforehand."""
    alone = {"operation": "smt=off", "kernel": "", "kind": "patched", "low_s": 5.0, "high_s": 90.0}
    found = costs(predictions=[*answer()["predictions"], alone])
    assert found.seconds["smt=off", Kernel.PATCHED] == Range(4.0, 90.0)
    assert str(found) == "costs/lpar1.jsonl: 6.4.0-vendor, 1920 CPUs"


@pytest.mark.parametrize(
    ("level", "chunk", "words", "seconds"),
    [
        ("off", None, "smt=off (expedited) 200 to 300 s", 300),
        ("1", None, "smt=1 (expedited) 200 to 300 s", 300),
        ("on", None, "smt=on (expedited) 100 to 600 s", 600),
        # Whether that is a way up or down, the plan does not know.
        ("4", None, "smt=4 (expedited) 100 to 600 s", 600),
        ("off", 64, "smt=off (patched) 4.0 to 60 s", 60),
    ],
)
def test_a_switch_is_that_of_the_kernel_that_runs(
    level: str, chunk: int | None, words: str, seconds: int
) -> None:
    release = RELEASE if chunk is None else "6.12-patched"
    found = forecast("lpar1", costs(), Job("apply", level), Seen(release, 1920, 1920, chunk))
    assert found.words == words
    assert found.minutes == BESIDE_MIN + seconds / 60


def test_a_deployment_switches_on_the_old_kernel_and_back_on_the_new_one() -> None:
    off = Seen(RELEASE, 240, 1920)
    assert minutes(Job("deploy", kernels=(Kernel.PATCHED,)), off) == BESIDE_MIN + BOOT_MIN + 30 + 1
    assert minutes(Job("deploy", kernels=(Kernel.STOCK,)), off) == BESIDE_MIN + BOOT_MIN + 30 + 60
    # A host that nobody has looked at may have SMT off.
    assert minutes(Job("deploy", kernels=(Kernel.PATCHED,)), None) == BESIDE_MIN + BOOT_MIN + 31
    assert minutes(Job("deploy", kernels=(Kernel.PATCHED,))) == BESIDE_MIN + BOOT_MIN
    assert forecast("lpar1", costs(), Job("deploy", kernels=(Kernel.PATCHED,)), LPAR).words == "no switch"


def test_a_comparison_switches_on_each_kernel_in_each_boot() -> None:
    job = Job("ab", kernels=(Kernel.STOCK, Kernel.PATCHED), boots=4, iterations=2)
    stock, patched = 8 * (3600 + 1800), 8 * (60 + 6)
    assert minutes(job) == math.ceil(BESIDE_MIN + 9 * BOOT_MIN + (stock + patched) / 60)
    found = forecast("lpar1", costs(), job, LPAR)
    assert found.words.startswith("8 x smt=off (stock) 2400 to 3600 s, 8 x smt=on (stock)")
    counted = Job("ab", kernels=(Kernel.STOCK, Kernel.PATCHED), boots=4, iterations=2, counted=1)
    assert forecast("lpar1", costs(), counted, LPAR).words.startswith("9 x smt=off (stock) 2400 to 3600 s")
    timed = Job("ab", kernels=(Kernel.STOCK,), boots=4, iterations=1, operations=("smt=off@5000",))
    assert minutes(timed) == BESIDE_MIN + 5 * BOOT_MIN + 4 * 60


def test_a_history_boots_what_is_left_of_its_kernels_once() -> None:
    job = Job("regress", kernels=(Kernel.STOCK, Kernel.EXPEDITED, Kernel.PATCHED), iterations=2)
    seconds = 2 * (3600 + 1800 + 300 + 600 + 60 + 6)
    assert minutes(job) == math.ceil(BESIDE_MIN + 4 * BOOT_MIN + seconds / 60)
    assert minutes(Job("regress")) == BESIDE_MIN, "a host of which all is measured is not booted"


def test_what_is_no_switch_of_smt_is_not_predicted() -> None:
    job = Job("ab", kernels=(Kernel.STOCK,), boots=4, iterations=1, operations=("cores-on=4",))
    found = forecast("lpar1", costs(), job, LPAR)
    assert found.minutes is None
    assert str(found) == "lpar1: no prediction: costs predict nothing of cores-on=4; give --minutes"


@pytest.mark.parametrize(
    ("seen", "problem"),
    [
        (
            Seen("6.4.1-vendor", 1920, 1920),
            "has the costs of kernel 6.4.0-vendor, and the host runs 6.4.1-vendor; measure the host's costs"
            " again",
        ),
        (
            Seen(RELEASE, 120, 960, when="20261126T020000Z-check"),
            "has the costs of 1920 CPUs, and the host has 120 of 960 online in 20261126T020000Z-check;"
            " measure the host's costs again, or if that is past, smt-fleet check",
        ),
        (
            Seen("6.12-patched", 960, 960, 64),
            "has the costs of 1920 CPUs, and the host has 960 of 960 online",
        ),
    ],
)
def test_costs_of_something_else_do_not_count(seen: Seen, problem: str) -> None:
    found = forecast("lpar1", costs(), Job("apply", "off"), seen)
    assert (found.minutes, found.switches) == (None, ())
    assert f"costs/lpar1.jsonl {problem}" in str(found)
    assert found.problem
    assert found.problem.level == WARNINGS


@pytest.mark.parametrize("seen", [Seen(RELEASE, 240, 1920), Seen(RELEASE, 1920, 2048), None])
def test_costs_count_whether_or_not_smt_is_on(seen: Seen | None) -> None:
    assert minutes(Job("apply", "off"), seen) == BESIDE_MIN + 5


def test_a_switch_that_its_timeout_would_end_is_named() -> None:
    found = forecast("lpar1", costs(), Job("check"), LPAR)
    assert found.minutes is not None
    assert [reason.text for reason in found.too_long(3599)] == [
        "smt=off (stock) is predicted to take 2400 to 3600 s, and ab_switch_timeout ends it after 3599 s"
        " (costs/lpar1.jsonl: 6.4.0-vendor, 1920 CPUs)"
    ]
    assert list(found.too_long(3600)) == []
    assert list(Forecast("lpar1").too_long(0)) == []


def test_what_preflight_saw_of_a_host() -> None:
    facts = {"release": RELEASE, "cpus": {"online": "0-3", "present": "0-7"}, "bulk_chunk": 64}
    assert seen_in(facts, "run") == Seen(RELEASE, 4, 8, 64, "run")
    # A table of an earlier version, and hosts that did not answer or did not tell.
    del facts["bulk_chunk"]
    assert seen_in(facts) == Seen(RELEASE, 4, 8)
    assert (seen_in(None), seen_in({"release": None})) == (None, None)
