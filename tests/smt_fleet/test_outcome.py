"""What a run's events come to: verdicts, and the exit code of the worst host."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smt_fleet.outcome import Outcome, Verdict, outcome

RECORD = {"release": "6.12-default", "online": "0-7"}


def event(kind: str, **words: Any) -> dict[str, Any]:
    return {"event": kind, "host": "lpar1", **words}


def fact(name: str, value: object) -> dict[str, Any]:
    return event("fact", name=name, value=value)


def judged(failure: str) -> list[dict[str, Any]]:
    """A measurement that ended so, and its history is asked then."""
    return [fact("regress_failure", failure), fact("regress_judged", True)]


CHECK = event("phase", phase="check")
DONE = fact("fleet_done", True)
HOLDS, GIVEN_BACK = fact("run_lock", {"held": True}), fact("run_lock", {"held": False})
BEGUN = fact("fleet_begun", True)
FAILED = event("failed", message="it did not work")
SILENT = event("silent", message="no route to host")


def ended(*, failed: bool, changed: bool = True) -> dict[str, Any]:
    return event("ended", failed=failed, changed=changed)


def end(*events: dict[str, Any], undoes: bool = False) -> Outcome:
    """Return what a run of one host comes to."""
    planned = {"event": "planned", "hosts": ["lpar1"]}
    return outcome([planned, *events, {"event": "end"}], undoes=undoes)


def switched(*, changed: bool, seconds: float | None) -> dict[str, Any]:
    return fact("smt_switch", {"changed": changed, "online": "0", "seconds": seconds})


@pytest.mark.parametrize(
    ("events", "verdict", "code"),
    [
        ([CHECK, HOLDS, switched(changed=True, seconds=3.0), GIVEN_BACK, ended(failed=False)], "ok", 0),
        (
            [CHECK, HOLDS, switched(changed=False, seconds=0), GIVEN_BACK, ended(failed=False)],
            "ok-unchanged",
            0,
        ),
        ([CHECK, ended(failed=False, changed=False)], "ok-unchanged", 0),
        ([CHECK, FAILED, ended(failed=True)], "unfit", 3),
        ([CHECK, SILENT, ended(failed=True)], "unreachable", 3),
        ([CHECK, SILENT, event("answers"), FAILED, ended(failed=True)], "unfit", 3),
        (
            [CHECK, fact("preflight_record", RECORD), HOLDS, FAILED, GIVEN_BACK, ended(failed=True)],
            "failed-restored",
            5,
        ),
        ([CHECK, HOLDS, FAILED, ended(failed=True)], "LEFT-CHANGED", 6),
        ([CHECK, HOLDS, SILENT, ended(failed=True)], "LEFT-CHANGED", 6),
        ([CHECK, HOLDS], "LEFT-CHANGED", 6),
        ([CHECK, HOLDS, GIVEN_BACK, DONE], "ok", 0),
        ([CHECK, DONE], "ok-unchanged", 0),
        ([CHECK, HOLDS, switched(changed=False, seconds=0), GIVEN_BACK, DONE], "ok-unchanged", 0),
        ([CHECK, HOLDS, GIVEN_BACK, DONE, FAILED, ended(failed=True)], "failed-restored", 5),
        ([CHECK], "not-reached", 7),
        ([], "not-reached", 7),
        ([CHECK, fact("fleet_begun", False), ended(failed=False)], "not-reached", 7),
        ([CHECK, fact("fleet_begun", False), FAILED, ended(failed=True)], "unfit", 3),
        ([CHECK, HOLDS, GIVEN_BACK, *judged(""), FAILED, ended(failed=True)], "ok", 0),
        ([CHECK, HOLDS, GIVEN_BACK, *judged("it broke"), ended(failed=False)], "failed-restored", 5),
        ([CHECK, HOLDS, *judged("it broke"), ended(failed=False)], "LEFT-CHANGED", 6),
        # Unfit before the first was measured, in a run that ended before its history could be asked.
        ([CHECK, fact("regress_failure", "held"), ended(failed=False)], "unfit", 3),
    ],
)
def test_a_host_comes_to(events: list[dict[str, Any]], verdict: str, code: int) -> None:
    found = end(*events)
    assert [found.verdict(host) for host in found.hosts] == [verdict]
    assert found.code == code


def test_a_host_that_has_no_time_tells_so() -> None:
    found = end(CHECK, fact("fleet_begun", False), fact("fleet_late", "not begun"), ended(failed=False))
    assert (found.named(Verdict.NOT_REACHED), found.hosts[0].message) == (["lpar1"], "not begun")


def test_a_switch_that_stopped_half_way_is_left_changed() -> None:
    """Though the lock was given back."""
    state = fact("host_state", {"release": "6.12-default", "cpus": {"online": "0,4,6-7"}})
    found = end(CHECK, fact("preflight_record", RECORD), HOLDS, FAILED, state, GIVEN_BACK, ended(failed=True))
    assert found.named(Verdict.LEFT_CHANGED) == ["lpar1"]
    assert (found.hosts[0].online_before, found.hosts[0].online_after) == ("0-7", "0,4,6-7")


@pytest.mark.parametrize(("last", "verdict"), [(FAILED, "LEFT-CHANGED"), (SILENT, "unreachable")])
def test_a_rollback_that_fails_leaves_a_host_changed(last: dict[str, Any], verdict: str) -> None:
    found = end(CHECK, last, ended(failed=True), undoes=True)
    assert [found.verdict(host) for host in found.hosts] == [verdict]
    assert found.code == 6


def test_a_resumed_run_judges_a_host_by_its_last_end() -> None:
    first = [CHECK, fact("preflight_record", RECORD), HOLDS, FAILED, ended(failed=True)]
    resumed = {"event": "resumed", "hosts": ["lpar1"]}
    again = [CHECK, fact("preflight_record", RECORD | {"online": "0,4,6-7"})]
    left = end(*first, {"event": "end"}, resumed, *again, FAILED, ended(failed=True))
    assert left.named(Verdict.LEFT_CHANGED) == ["lpar1"], "it is still this run's"
    done = end(*first, {"event": "end"}, resumed, *again, GIVEN_BACK, ended(failed=False))
    assert done.code == 0
    assert done.hosts[0].online_before == "0-7"


@pytest.mark.parametrize(
    ("events", "verdict"),
    [
        ([BEGUN, HOLDS, FAILED], "LEFT-CHANGED"),
        ([BEGUN, HOLDS, SILENT], "LEFT-CHANGED"),
        ([BEGUN, HOLDS, FAILED, GIVEN_BACK], "failed-restored"),
        ([BEGUN, HOLDS, GIVEN_BACK, DONE], "ok"),
        ([HOLDS, FAILED], "running"),
        ([BEGUN], "running"),
    ],
)
def test_once_the_next_batch_begins_a_host_has_its_verdict(
    events: list[dict[str, Any]], verdict: str
) -> None:
    planned = {"event": "planned", "hosts": ["lpar1"]}
    found = outcome([planned, CHECK, *events, {"event": "batch"}], undoes=False)
    assert [found.verdict(host) for host in found.hosts] == [verdict]


def test_a_host_that_a_resumed_run_holds_from_before_is_running_when_its_batch_begins() -> None:
    planned, resumed = ({"event": kind, "hosts": ["lpar1"]} for kind in ("planned", "resumed"))
    first = [planned, CHECK, BEGUN, HOLDS, FAILED, ended(failed=True), {"event": "end"}]
    found = outcome([*first, resumed, CHECK, {"event": "batch"}, BEGUN], undoes=False)
    assert [found.verdict(host) for host in found.hosts] == ["running"]


def test_a_run_that_goes_on_is_running() -> None:
    planned = {"event": "planned", "hosts": ["lpar1", "lpar2"]}
    found = outcome([planned, CHECK, HOLDS], undoes=False)
    assert [found.verdict(host) for host in found.hosts] == ["running", "not-reached"]
    assert found.pending == ["lpar1", "lpar2"]


def test_the_worst_host_is_the_exit_code() -> None:
    def of(name: str, *events: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**one, "host": name} for one in events]

    planned = {"event": "planned", "hosts": ["a", "b", "c", "d"]}
    ok = of("a", CHECK, ended(failed=False))
    unfit = of("b", CHECK, FAILED, ended(failed=True))
    late = of("c", CHECK, fact("fleet_begun", False), ended(failed=False))
    left = of("d", CHECK, HOLDS, FAILED, ended(failed=True))
    restored = of("d", CHECK, HOLDS, FAILED, GIVEN_BACK, ended(failed=True))
    for last, code in ((left, 6), (restored, 5), (of("d", CHECK, ended(failed=False)), 7)):
        assert outcome([planned, *ok, *unfit, *late, *last, {"event": "end"}], undoes=False).code == code


ENDS = [DONE, ended(failed=True), ended(failed=False)]
EVENTS = [CHECK, BEGUN, {"event": "batch"}, HOLDS, GIVEN_BACK, FAILED, SILENT, event("answers"), *ENDS]


@given(st.lists(st.sampled_from(EVENTS)), st.booleans())
def test_any_order_of_events_has_one_verdict(events: list[dict[str, Any]], undoes: bool) -> None:
    """And a host whose lock the run has is never told to be well."""
    found = end(*events, undoes=undoes)
    (host,) = found.hosts
    verdict = found.verdict(host)
    assert verdict in Verdict
    assert (found.code == 0) == (verdict in ("ok", "ok-unchanged"))
    if host.held and host.phase and (host.failed or not host.ended):
        assert verdict == "LEFT-CHANGED"
