"""Every judge passes what is right and fails each single thing that is wrong."""

from collections.abc import Callable
from typing import Any

import pytest

from kernel_qualify.guest.stress import DEADLINE_LOAD, QUEUE_LOAD
from kernel_qualify.judge import verdicts
from tests.kernel_qualify.judge import perfect

Record = dict[str, Any]
Spoil = Callable[[Record], object]


def spoilt(records: list[Record], kind: str, spoil: Spoil, **match: object) -> list[Record]:
    """The records, with the first one of a kind that matches spoilt."""
    chosen = next(
        record
        for record in records
        if record["kind"] == kind and all(record[key] == value for key, value in match.items())
    )
    spoil(chosen)
    return records


def put(**values: object) -> Spoil:
    """Spoil a record by replacing values."""
    return lambda record: record.update(values)


def in_next(**values: object) -> Spoil:
    """Spoil the switch after a fault."""
    return lambda record: record["after"][0].update(values)


def test_a_perfect_injection_passes() -> None:
    assert verdicts.fault_problems(perfect.injection()) == []


OFF_MIDDLE = {"direction": "off", "name": "sched:active", "position": "middle"}
ON_FIRST = {"direction": "on", "name": "sched:active", "position": "first"}


@pytest.mark.parametrize(
    ("kind", "match", "spoil", "expected"),
    [
        ("fault", OFF_MIDDLE, put(error=0), "the writer got error 0"),
        ("fault", OFF_MIDDLE, put(error=16), "the writer got error 16"),
        ("fault", OFF_MIDDLE, put(online=perfect.PRESENT), "online, not"),
        ("fault", ON_FIRST, put(online=perfect.PRIMARIES), "online, not"),
        ("fault", OFF_MIDDLE, put(rendezvous=3), "3 rendezvous, not 2"),
        ("fault", OFF_MIDDLE, put(log=[]), "the log says"),
        ("fault", OFF_MIDDLE, put(log=["CPU 7 cannot go offline (-11)"]), "the log says"),
        (
            "fault",
            OFF_MIDDLE,
            put(log=["CPU 6 cannot go offline: sched:active refused (-11)"]),
            "the log says",
        ),
        (
            "fault",
            OFF_MIDDLE,
            put(log=["CPU 7 cannot go online: sched:active refused (-11)"]),
            "the log says",
        ),
        (
            "fault",
            OFF_MIDDLE,
            put(log=["CPU 7 cannot go offline: perf:online refused (-11)"]),
            "the log says",
        ),
        (
            "fault",
            OFF_MIDDLE,
            put(log=["CPU 7 cannot go offline: sched:active refused (-16)"]),
            "the log says",
        ),
        ("fault", OFF_MIDDLE, lambda r: r.update(log=r["log"] * 2), "the log says"),
        ("fault", OFF_MIDDLE, put(domains=perfect.domains(perfect.PRESENT)), "domains of CPU"),
        ("fault", OFF_MIDDLE, put(domains={}), "domains of CPU"),
        ("fault", OFF_MIDDLE, put(domains=None), "domains of CPU"),
        ("fault", OFF_MIDDLE, lambda r: r["domains"]["8"].clear(), "domains of CPU 8 span []"),
        (
            "fault",
            OFF_MIDDLE,
            lambda r: r["cpusets"]["partition"].update(effective=[8]),
            "cpuset partition has",
        ),
        ("fault", OFF_MIDDLE, lambda r: r["cpusets"]["member"].update(effective=[]), "cpuset member has"),
        (
            "fault",
            OFF_MIDDLE,
            lambda r: r["cpusets"]["partition"].update(state="root invalid"),
            "is now root inv",
        ),
        ("fault", OFF_MIDDLE, in_next(error=16), "next, on: failed with error 16"),
        ("fault", OFF_MIDDLE, in_next(online=perfect.PRIMARIES), "next, on:"),
        ("fault", ON_FIRST, in_next(rendezvous=14), "next, off: 14 rendezvous: CPUs went one by one"),
        ("fault", {"fired": False, "direction": "off"}, put(online=[0]), "startup/only:state"),
        ("fault", OFF_MIDDLE, put(fired=False), "off: sched:active failed in ['first', 'last'] only"),
        ("baseline", {"to": "off"}, put(rendezvous=14), "undisturbed off: 14 rendezvous"),
        ("baseline", {"to": "on"}, put(domains=None), "no sched domains to look at"),
        (
            "baseline",
            {"to": "on"},
            lambda r: r["cpusets"]["partition"].update(state="member"),
            "the partition is",
        ),
        ("end", {}, put(kind="other"), "did not reach its end"),
        ("end", {}, put(online=[0, 8]), "are not online at the end"),
        ("end", {}, put(kind="stuck", direction="off"), "before a switch off"),
    ],
)
def test_a_fault_that_ends_otherwise_is_noticed(
    kind: str, match: Record, spoil: Spoil, expected: str
) -> None:
    problems = verdicts.fault_problems(spoilt(perfect.injection(), kind, spoil, **match))
    assert any(expected in problem for problem in problems), problems


def test_an_injection_that_reaches_nothing_is_noticed() -> None:
    records = [record for record in perfect.injection() if record["kind"] != "fault"]
    assert len(verdicts.fault_problems(records)) == sum(map(len, verdicts.MUST_FAIL.values()))


def test_a_perfect_stress_passes() -> None:
    assert verdicts.stress_problems(perfect.stress(), 8) == []


def test_only_with_preempt_rt_is_no_deadline_task_needed() -> None:
    records = perfect.stress()
    for record in records:
        if record["kind"] == "loads":
            record["started"].remove(DEADLINE_LOAD)
    assert verdicts.stress_problems(records, 8) == [
        f"phase {number}: no {DEADLINE_LOAD}" for number in (1, 2)
    ]
    assert verdicts.stress_problems(spoilt(records, "machine", put(realtime=True)), 8) == []


@pytest.mark.parametrize(
    ("kind", "match", "spoil", "expected"),
    [
        ("switch", {"to": "2"}, put(error=16, log=["why"]), "error 16, ['why']"),
        ("switch", {"to": "off"}, put(online=[0, 5, 8]), "CPUs [5] are still online"),
        ("switch", {"to": "2"}, put(online=[0, 1, 3, 8, 9]), "CPUs [3] are still online"),
        ("switch", {"to": "on"}, put(online=perfect.PRIMARIES), "are not online"),
        ("switch", {"to": "4"}, lambda r: r["online"].remove(8), "CPUs [8] are not online"),
        ("quiet", {"to": "off", "phase": "version 1"}, put(rendezvous=14), "CPUs went one by one"),
        ("quiet", {"to": "off", "phase": "version 2"}, put(error=16), "error 16"),
        ("quiet", {"to": "on", "phase": "version 2"}, put(domains={}), "not those from before"),
        ("quiet", {"phase": "before"}, put(domains=None), "no sched domains to look at"),
        (
            *("quiet", {"to": "off", "phase": "version 1"}),
            put(strays=["page_online of CPU 2", "x"]),
            "2 callbacks began while another CPU's threads were parked, such as page_online of CPU 2",
        ),
        ("quiet", {"to": "off"}, put(parked=3), "3 CPUs parked their threads, not 14"),
        ("quiet", {"to": "off"}, put(lost=1), "in a trace that lost 1 events"),
        ("loads", {}, lambda r: r["counts"]["disk"].pop("ok"), "disk never succeeded"),
        ("loads", {}, lambda r: r["counts"].pop("taskset"), "taskset never succeeded: {}"),
        ("loads", {}, lambda r: r["started"].remove(DEADLINE_LOAD), f"phase 1: no {DEADLINE_LOAD}"),
        ("loads", {}, lambda r: r["started"].remove(QUEUE_LOAD), f"phase 1: no {QUEUE_LOAD}"),
        ("loads", {}, put(kind="other"), "1 phases"),
        ("end", {}, put(kind="other"), "did not reach its end"),
        ("switch", {}, put(kind="other"), "7 switches, not 8"),
    ],
)
def test_a_stress_that_went_wrong_is_noticed(kind: str, match: Record, spoil: Spoil, expected: str) -> None:
    problems = verdicts.stress_problems(spoilt(perfect.stress(), kind, spoil, **match), 8)
    assert any(expected in problem for problem in problems), problems


def test_perfect_selftests_pass() -> None:
    assert verdicts.selftest_problems(perfect.selftests()) == []


@pytest.mark.parametrize(
    ("kind", "spoil", "expected"),
    [
        ("selftest", put(exit_code=1), "exit code 1"),
        ("selftest", put(exit_code=4), "exit code 4"),
        ("selftest", put(complaints=["offline_cpu_expect_success 3: unexpected fail"]), "unexpected fail"),
        ("selftest", put(online=[0]), "online afterwards"),
        ("selftest", put(kind="other"), "runs:"),
        ("switch", put(error=11), "error 11"),
        ("switch", put(rendezvous=14), "CPUs went one by one"),
        ("end", put(kind="other"), "did not reach its end"),
    ],
)
def test_a_selftest_that_failed_is_noticed(kind: str, spoil: Spoil, expected: str) -> None:
    problems = verdicts.selftest_problems(spoilt(perfect.selftests(), kind, spoil))
    assert any(expected in problem for problem in problems), problems


def test_no_switches_are_no_success() -> None:
    assert verdicts.plain_switch_problems([], {"present": [0], "victims": []}, 64) == ["no switches"]


STATISTICS = (
    "[  190.1] rcu-torture: rtc: 00000000d4cf01a4 ver: 2831 tfle: 0 rta: 2832 rtaf: 0 rtf: 2822 rtmbe: 0 "
    "rtmbkf: 0/1 rtbe: 0 rtbke: 0 rtbf: 0 rtb: 12 nt: 5713 onoff: 61/61:62/63 3,31:4,60 871:1204 (HZ=100) "
    "barrier: 53/54:0 read-exits: 112 nocb-toggles: 0:0\n"
)
GOOD = STATISTICS + "[  191.0] rcu-torture:--- End of test: SUCCESS: nreaders=15 nfakewriters=4\n"


def test_a_torture_that_succeeded_passes() -> None:
    assert verdicts.torture_problems(GOOD, 60) == []


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", "end of test: none"),
        (GOOD.replace("SUCCESS", "FAILURE"), "end of test: ['FAILURE']"),
        (GOOD.replace("SUCCESS", "RCU_HOTPLUG"), "end of test: ['RCU_HOTPLUG']"),
        (STATISTICS, "end of test: none"),
        (GOOD.replace("ver: 2831", "ver: 3"), "hardly ran"),
        (GOOD.replace("61/61:62/63", "0/0:1/1"), "1 CPUs off and 0 on, not 60"),
        (GOOD.partition("\n")[2], "no statistics"),
    ],
)
def test_a_torture_that_did_not_is_noticed(log: str, expected: str) -> None:
    assert any(expected in problem for problem in verdicts.torture_problems(log, 60))
