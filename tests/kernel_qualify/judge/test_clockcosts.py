"""The judges of the clocks: each verdict is shown to fail for what can be wrong."""

from pathlib import Path
from typing import Any

import pytest

from hotplug_common.kernel.series import PATCHED, STOCK
from kernel_qualify import keeping
from kernel_qualify.judge import clockcosts, ktap, logs
from kernel_qualify.judge.clockcosts import HPET, Cost, Run

CALLS = 1000


def run(before: float, after: float, *, vcpus: int = 8, threads: int = 8) -> Run:
    """A run in which a call took so many us."""
    costs = (Cost(STOCK, HPET, threads, (before, before)), Cost(PATCHED, HPET, threads, (after,)))
    return Run("6.12", vcpus, 2, 1, {}, costs)


def order(**changes: Any) -> list[dict[str, Any]]:
    """The record of a check that found nothing."""
    result = {"calls": CALLS, "violations": 0, "crossed": 5} | changes
    return [{"kind": "order", "clocksource": HPET, "wrong": bool(result["violations"]), "result": result}]


def test_samples_of_all_boots_make_one_cost() -> None:
    records = [
        {"kind": "clock", "clocksource": HPET, "threads": threads, "us": us}
        for threads, us in ((1, 3.0), (2, 9.0), (1, 1.0), (1, 2.0))
    ]
    one, two = clockcosts.costs(STOCK, [*records, {"kind": "end"}])
    assert (one.threads, one.us, one.median) == (1, (3.0, 1.0, 2.0), 2.0)
    assert (two.threads, two.us) == (2, (9.0,))


def test_a_gain_is_what_it_took_before_to_what_it_takes_now() -> None:
    assert run(30, 10).ratio(HPET, 8) == pytest.approx(3)
    assert run(30, 10).ratio(HPET, 4) is None


def test_three_times_are_wanted_of_vcpus_without_host_cpus() -> None:
    assert clockcosts.problems(run(31, 10)) == []
    assert clockcosts.problems(run(29, 10)) == ["HPET, 8 threads on 2 CPUs: 2.90 times faster, not 3"]


def test_a_target_that_nothing_was_measured_for_is_missed() -> None:
    assert clockcosts.problems(run(31, 10, threads=4)) == ["nothing measured with 8 threads"]


def test_a_tenth_is_allowed_where_every_vcpu_has_a_host_cpu() -> None:
    assert clockcosts.problems(run(10, 10.9, vcpus=2, threads=1)) == []
    (problem,) = clockcosts.problems(run(10, 11.2, vcpus=2, threads=1))
    assert "1.12 times as long" in problem


def test_what_is_kept_is_what_was_measured(tmp_path: Path) -> None:
    keeping.save(run(3, 1), tmp_path / "clocks.json")
    assert clockcosts.load(tmp_path / "clocks.json") == run(3, 1)


def test_the_table_has_a_row_for_each_number_of_threads() -> None:
    whole = Run(
        "6.12", 8, 2, 3, {}, tuple(Cost(name, HPET, 1, (us,)) for name, us in (("stock", 3), ("patched", 2)))
    )
    rows = clockcosts.table([whole]).splitlines()
    assert "| 8 on 2 | 3 | 1 | 3.00 (3.00 to 3.00) | 2.00 (2.00 to 2.00) | 1.50x |" in rows


def test_an_order_that_holds() -> None:
    assert clockcosts.order_problems(order(), CALLS) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"violations": 2}, "2 of 1000 calls went backwards"),
        ({"calls": 999}, "999 calls, not 1000"),
        ({"crossed": 0}, "no call came after another CPU's"),
    ],
)
def test_an_order_that_was_broken_or_not_checked(changes: dict[str, int], problem: str) -> None:
    assert clockcosts.order_problems(order(**changes), CALLS) == [f"{HPET}: {problem}"]


def test_no_check_is_no_proof() -> None:
    assert clockcosts.order_problems([], CALLS) == ["no order was checked"]
    broken = [{"kind": "order", "clocksource": HPET, "wrong": False, "result": None}]
    assert clockcosts.order_problems(broken, CALLS) == [f"{HPET}: 0 calls, not {CALLS}"]


REFERENCES = ("raw", "/dev/rtc0")


def drifts(cpus: int = 2, **changes: Any) -> list[dict[str, Any]]:
    """The records of clocks that keep their pace, the first of them but for some changes."""
    seen = [{"cpu": cpu, "rate_ppm": 0.1, "uncertainty_ppm": 20.0} for cpu in range(cpus)]
    records: list[dict[str, Any]] = [
        {"kind": "drift", "clocksource": name, "reference": clock, "wrong": None, "result": {"cpus": seen}}
        for name in clockcosts.CLOCKSOURCES
        for clock in REFERENCES
    ]
    return [records[0] | changes, *records[1:]]


def test_clocks_that_keep_their_pace() -> None:
    assert clockcosts.drift_problems(drifts(), REFERENCES, 2) == []


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        (drifts(wrong="1 jumps against raw on CPU 0"), "hpet against raw: 1 jumps against raw on CPU 0"),
        (drifts(result=None), "hpet against raw: looked at 0 CPUs, not 2"),
        (drifts()[1:], "hpet was not held against raw"),
        (
            drifts(result={"cpus": [{"cpu": cpu, "uncertainty_ppm": 90.0 + 20 * cpu} for cpu in (0, 1)]}),
            "hpet against raw: CPU 1 is known to 110 ppm only",
        ),
    ],
)
def test_a_clock_that_drifts_or_was_not_watched(records: list[dict[str, Any]], problem: str) -> None:
    assert clockcosts.drift_problems(records, REFERENCES, 2) == [problem]


KTAP = """\
[    1.000000]     # Subtest: pvclock
[    1.100000]     ok 1 alone
[    1.200000] # pvclock: pass:9 fail:0 skip:0 total:9
[    1.200001] # Totals: pass:9 fail:0 skip:0 total:9
[    1.300000] ok 2 pvclock
"""


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        ("", "did not run"),
        (KTAP.replace("ok 2", "not ok 2"), "failed"),
        (KTAP.replace("pass:9 fail:0", "pass:8 fail:1"), "failed"),
        (KTAP.replace("pass:9", "pass:0"), "skipped all"),
    ],
)
def test_a_suite_that_did_not_pass(log: str, problem: str) -> None:
    (found,) = ktap.problems(log, ["pvclock"])
    assert problem in found


def test_a_suite_that_passed() -> None:
    assert ktap.problems(KTAP, ["pvclock"]) == []


RACE = """\
[   10.0] BUG: KCSAN: data-race in combined_counter_read / combined_counter_read
[   10.0] write to 0xffff of 8 bytes by task 1 on cpu 1:
"""


def test_a_race_counts_if_it_names_our_files_and_anything_else_always() -> None:
    other = "[   11.0] WARNING: CPU: 1 PID: 1 at kernel/cpu.c:1 somewhere\n"
    assert len(logs.problems_of(RACE + other, logs.mentions("combined_counter|hpet"))) == 2
    assert logs.problems_of(RACE + other, logs.mentions("pvclock")) == [
        "WARNING: CPU: 1 PID: 1 at kernel/cpu.c:1 somewhere"
    ]
