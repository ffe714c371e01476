"""What deployments, clocks, schedules and windows decide in filters, called as the functions they are."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ansible.test_decisions import decisions, load

clocks, deploy, fleet, schedule = map(load, ("clocks", "deploy", "fleet", "schedule"))
KERNEL = {"release": "6.12-patched", "arch": "ppc64le", "image": "/k/vmlinux", "sha256": "ab"}


def begin(problems: list[str], *starts: str) -> None:
    """There are these problems and no other."""
    assert len(problems) == len(starts), problems
    for problem, start in zip(problems, starts, strict=True):
        assert problem.startswith(start), problem


@pytest.fixture
def artifact(tmp_path: Path) -> str:
    (tmp_path / "artifact.json").write_text("{}")
    (tmp_path / "config").write_text("CONFIG_SMP=y\n")
    return str(tmp_path / "artifact.json")


def test_a_deployment_names_all_that_is_wrong_with_its_variables(artifact: str) -> None:
    good = {"artifact": artifact, "artifacts": {}, "name": "", "append": "quiet x=1"}
    assert deploy.deploy_problems(good) == []
    assert deploy.deploy_problems(good | {"artifact": "", "artifacts": {"x86_64": artifact}}) == []
    begin(deploy.deploy_problems(good | {"artifact": ""}), "neither of deploy_artifact and deploy_artifacts")
    both = deploy.deploy_problems(good | {"artifacts": {"x86_64": artifact}})
    begin(both, "both of deploy_artifact and deploy_artifacts given; give the first for hosts of one kind")
    bad = {"artifact": "", "artifacts": {"ppc64le": "a.json", "x86_64": "/none"}}
    bad |= {"name": "a b", "append": 'x="1"'}
    begin(
        deploy.deploy_problems(bad),
        "deploy_artifacts.ppc64le and deploy_artifacts.x86_64 is 'a.json' and '/none'; give the",
        "deploy_name is 'a b', which cannot go on a kernel command line",
        "deploy_append is 'x=\"1\"'; leave out hotplug_acceleration.* and double quotes",
    )
    for append in ("hotplug_acceleration.variant=x", "quiet hotplug_acceleration.x", "a\nb"):
        assert len(deploy.deploy_problems(good | {"append": append})) == 1
    assert deploy.deploy_problems(good | {"append": "my_hotplug_acceleration.x=1"}) == []


def asked(file: str, **changed: Any) -> dict[str, Any]:
    return {
        "machine": "ppc64le",
        "several": False,
        "file": file,
        "package": {},
        "boot": "kexec",
        "confirmed": "",
        "watchdog": "0",
    } | changed


def test_a_kernel_is_held_against_what_is_asked_of_it(artifact: str) -> None:
    def problems(**changed: Any) -> list[str]:
        found: list[str] = deploy.deploy_kernel_problems(KERNEL, "h", asked(artifact, **changed))
        return found

    assert problems() == problems(machine="x86_64") == []
    begin(problems(machine="x86_64", several=True), f"h is x86_64, for which deploy_artifacts has {artifact}")
    begin(problems(boot="once"), f"{artifact} names no package, which boot=once installs")
    assert problems(boot="once", package={"file": "x.deb"}) == []
    installed = {"boot": "default", "package": {"file": "x.deb"}}
    begin(problems(**installed), "boot=default makes 6.12-patched what this host boots from now on; if that")
    begin(problems(**installed, confirmed="6.12-other"), "boot=default makes")
    assert problems(**installed, confirmed="6.12-other, 6.12-patched") == []
    begin(problems(watchdog="60"), "deploy_watchdog is 60 and 6.12-patched has no watchdog driver")
    Path(artifact).with_name("config").write_text("CONFIG_SMP=y\nCONFIG_WATCHDOG=y\n")
    assert problems(watchdog="60") == []


def test_a_deployment_that_is_there_is_left_alone_and_its_way_back_goes_past_it() -> None:
    record = {"release": "6.12-default"}
    earlier = {
        "release": "6.12-patched",
        "boot": "kexec",
        "append": "quiet",
        "default": {"release": "6.12-old"},
    }
    runs = {"release": "6.12-patched", "variant": "patched", "deployment": earlier}

    def there(state: dict[str, Any], tag: str, boot: str, append: str) -> bool:
        return bool(deploy.deploy_is_there(state, KERNEL, tag, boot, append))

    assert there(runs, "patched", "kexec", "quiet")
    assert not there(runs, "patched", "once", "quiet")
    assert not there(runs, "patched", "kexec", "")
    assert not there(runs, "other", "kexec", "quiet")
    assert not there(runs | {"release": "6.12-old"}, "patched", "kexec", "quiet")
    assert not there(runs | {"deployment": None}, "patched", "kexec", "quiet")
    assert there(runs | {"variant": None}, "", "kexec", "quiet")
    assert deploy.deploy_back_to(runs, record) == {"release": "6.12-old"}
    assert deploy.deploy_back_to(runs | {"variant": None}, record) == record
    assert deploy.deploy_back_to({"variant": None, "deployment": None}, record) == record
    did, then = {"failed": []}, {"failed": ["x"]}
    assert deploy.deploy_did_before(runs, did) == {}
    assert deploy.deploy_did_before(runs | {"deployment": earlier | {"health": then}}, did) == then
    assert deploy.deploy_did_before(runs | {"variant": None}, did) == did


def test_a_look_at_clocks_names_all_that_is_wrong(tmp_path: Path) -> None:
    good = {"results_dir": str(tmp_path), "restore": False, "apply": "", "earlier": [str(tmp_path / "none")]}
    good |= {"calls": "1000", "iterations": 3, "seconds": "0.5", "bundles": {}}
    assert clocks.clocks_problems("h", good) == []
    assert clocks.clocks_problems("h", good | {"results_dir": "", "restore": True}) == []
    bad = good | {"results_dir": "x", "earlier": [str(tmp_path)], "apply": "a b", "calls": "0"}
    bad |= {"iterations": "many", "seconds": 0.0001, "bundles": {"ppc64le": "/none.pyz"}}
    begin(
        clocks.clocks_problems("h", bad),
        "clocks_results_dir is 'x'; give an absolute path",
        "x holds an earlier audit of h; move it away",
        "clocks_apply is 'a b'; name one clocksource, or recommended",
        "clocks_calls is 0; ask for at least 1",
        "clocks_iterations is many; ask for at least 1",
        "clocks_seconds is 0.0001; ask for at least 0.001",
        "clocks_bundles names /none.pyz, which does not exist; leave it out to have one made",
    )
    both = clocks.clocks_problems("h", good | {"apply": "tsc", "restore": True})
    begin(both, "clocks_apply and clocks_restore are both set; use one of them")


def test_a_host_has_to_be_free_for_a_look_at_clocks() -> None:
    state = {"lock": None, "holder": "", "machine": "x86_64", "euid": 0}
    settings = {"machines": ["ppc64le", "x86_64"], "bundles": {}, "switches": False, "restores": False}
    settings["rollback"] = "rollback.yml"
    assert clocks.clocks_host_problems(state, settings) == []
    locked = clocks.clocks_host_problems(state | {"lock": {}, "holder": "ann has it"}, settings)
    begin(locked, "ann has it; wait for that run, or if it is gone, rollback.yml -e ab_break_lock=true")
    arm = state | {"machine": "aarch64"}
    begin(
        clocks.clocks_host_problems(arm, settings), "clock-check has no bundle for aarch64; it has them for"
    )
    assert clocks.clocks_host_problems(arm, settings | {"bundles": {"aarch64": "/a"}}) == []
    assert clocks.clocks_host_problems(arm, settings | {"restores": True}) == []
    plain = state | {"euid": 1000}
    assert clocks.clocks_host_problems(plain, settings) == []
    begin(clocks.clocks_host_problems(plain, settings | {"switches": True}), "tasks do not run as root")


SCHEDULE = {"state": "present", "name": "nightly", "user": "smt", "until": "06:00", "metrics": "/m/x.prom"}


@pytest.mark.parametrize(
    ("changed", "starts"),
    [
        ({}, []),
        ({"until": "", "metrics": ""}, []),
        ({"name": "a b"}, ["schedule_name is 'a b'; use letters"]),
        ({"user": "Ann"}, ["schedule_user is 'Ann'; name the user that has the ssh keys"]),
        ({"until": "24:00"}, ["schedule_until is '24:00'; give a time of the day as 06:00, in quotes"]),
        ({"until": "6:00"}, ["schedule_until is '6:00'"]),
        ({"metrics": "x"}, ["schedule_metrics is 'x'; give such a path, or leave it out"]),
        (
            {"paths": {"schedule_dir": "/a b", "schedule_inventory": "x", "schedule_vars_file": "/v"}},
            ["schedule_dir, schedule_inventory: not what goes into a unit; give absolute paths"],
        ),
        ({"state": "absent", "user": "", "paths": {"schedule_dir": ""}}, []),
    ],
)
def test_a_schedule_names_what_is_wrong_with_its_variables(
    changed: dict[str, Any], starts: list[str]
) -> None:
    begin(schedule.schedule_problems(SCHEDULE | {"paths": {}} | changed), *starts)


def test_a_control_node_needs_root_systemd_a_user_and_what_is_called() -> None:
    answered = {"rc": 0, "stdout": "running\n"}
    node = {"uid": 0, "system": answered, "calendar": answered, "timespan": answered}
    given = {"state": "present", "user": "smt", "known": True, "lacking": []}
    assert schedule.schedule_node_problems(node, given) == []
    refused = {"rc": 1, "stdout": "offline\n", "stderr": "no such time"}
    bad = {"uid": 1000, "system": refused, "calendar": refused, "timespan": {"msg": "no systemd-analyze"}}
    begin(
        schedule.schedule_node_problems(bad, given | {"known": False, "lacking": ["/a", "/b"]}),
        "tasks do not run as root",
        "systemd does not run here, it reports 'offline'; choose another control node",
        "there is no user smt; make one",
        "/a, /b: not there; name what is there",
        "schedule_on_calendar: no such time; see man 7 systemd.time",
        "schedule_randomized_delay: no systemd-analyze; write it as 30min",
    )
    gone = node | {"calendar": {}, "timespan": {}}
    assert schedule.schedule_node_problems(gone, {**given, "state": "absent", "known": False}) == []


@pytest.mark.parametrize(
    "end", ["04:30", "2026-99-99T99:99", "2026-11-26", "2026-11-26T04:30:00", "2026-1-2T4:5", "soon"]
)
def test_a_window_ends_at_a_time(end: str) -> None:
    assert fleet.fleet_window_problem("2026-11-26T04:30") == fleet.fleet_window_problem("") == ""
    problem = f"fleet_window_end is '{end}'; give a time as 2026-11-26T04:30, or leave it out"
    assert fleet.fleet_window_problem(end) == problem


@given(st.integers(0, 3000), st.integers(-3000, 3000))
def test_a_host_begins_only_if_it_can_be_ready_in_time(minutes: int, left: int) -> None:
    now = datetime(2026, 11, 26, 22, 0).timestamp()
    end = datetime.fromtimestamp(now + 60 * left).strftime(fleet.FORM)
    assert fleet.fleet_has_time(end, minutes, now) == (0 < minutes <= left)
    assert fleet.fleet_has_time("", minutes, now)


def test_one_lock_is_broken_by_its_token_or_on_the_only_host_of_a_run() -> None:
    breaks = decisions.ab_breaks_lock
    assert breaks("t1", "t1", 5)
    assert not breaks("t2", "t1", 1)
    assert [breaks(given, "t1", 1) for given in (True, "true", "yes", "1", 1)] == [True] * 5
    assert not any(breaks(given, "t1", 2) for given in (True, "true", "yes", "1", 1))
    assert not breaks(False, "t1", 1)


def test_a_rollback_goes_past_a_deployment_or_undoes_the_switch_or_the_run() -> None:
    applied = {"online": "0-7", "persists": "unit"}
    deployment, lock = {"default": {"release": "old"}}, {"token": "t", "default": {"online": "0-3"}}
    for records, back, undoes in (
        (({}, {}, {}), {}, False),
        ((lock, {}, {}), {"online": "0-3"}, False),
        (({}, {}, applied), {"online": "0-7"}, True),
        ((lock, {}, applied), {"online": "0-3"}, False),
        ((lock | {"switch": "off"}, {}, applied), {"online": "0-7"}, True),
        (({}, deployment, applied), {"release": "old"}, False),
        ((lock, deployment, {}), {"release": "old"}, False),
    ):
        assert decisions.ab_back_to(*records) == back, records
        assert decisions.ab_undoes_switch(*records) == undoes, records


def test_the_rows_of_the_table_need_their_kernels() -> None:
    known = [
        {"name": name, "artifact": file} for name, file in (("stock", "/s"), ("revert", ""), ("rcu", "/s"))
    ]
    problems = decisions.rcu_variants_problems
    assert problems(["stock", "rcu"], known) == []
    begin(
        problems(["stock", "x"], known),
        "rcu_variants_rows names x; the table has stock, revert, rcu",
        "rcu_v",
    )
    begin(problems(["rcu"], known), 'rcu_variants_rows is ["rcu"]; name stock, and one row or more')
    begin(problems(["stock", "revert"], known), "rcu_variants_artifacts has no kernel for revert; it takes")


def test_a_kernels_image_is_the_one_that_was_built() -> None:
    problems = decisions.preflight_kernel_problems
    assert problems(KERNEL, {"exists": True, "checksum": "ab"}, "ppc64le") == []
    begin(problems(KERNEL, {"exists": False}, "ppc64le"), "the image /k/vmlinux does not exist")
    begin(
        problems(KERNEL, {"exists": True, "checksum": "cd"}, "x86_64"),
        "the image /k/vmlinux has SHA-256 cd, not ab",
        "it is built for ppc64le and the host is x86_64",
    )


def test_a_prediction_makes_a_good_judgement_worse_and_no_bad_one_better() -> None:
    predicted = {"said": "off 1 s", "reasons": [{"level": "go-with-warnings", "text": "t"}]}
    for before, after in (("go", "go-with-warnings"), ("no-go", "no-go"), ("unreachable", "unreachable")):
        survey = {"host": "h", "verdict": before, "reasons": [{"level": "x"}]}
        found = decisions.preflight_with_prediction(survey, predicted)
        assert (found["verdict"], found["predicted"], len(found["reasons"])) == (after, "off 1 s", 2)
    survey = {"host": "h", "verdict": "go", "reasons": []}
    assert decisions.preflight_with_prediction(survey, {"said": "", "reasons": []})["verdict"] == "go"
