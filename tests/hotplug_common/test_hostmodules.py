"""Modules of the collection: they document what the host's program takes, and what an operator reads."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hotplug_common.hostmodules import (
    MODULES,
    SHARED,
    HostModule,
    Task,
    answer_of,
    environment,
    lock_owner,
    run_after,
    turns,
)
from hotplug_host.agent.command import STEPS
from tests import ROOT

FOLDER = ROOT / "ansible/plugins/modules"
NAMES = sorted(MODULES)
#: Modules that no program on the host does: each has an action plugin of its name.
OWN_PLUGIN = ("boot_proof",)
#: What the action plugin gives beside the options that a module documents.
GIVEN = {"sysroot", "dry_run", "lock", "acquire", "release", "words", "program"}


def documented(name: str, part: str = "DOCUMENTATION") -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return yaml.safe_load(getattr(module, part))


def step_options(words: tuple[str, ...]) -> dict[str, argparse.Action]:
    step = importlib.import_module(f"hotplug_host.agent.{words[0].replace('-', '_')}")
    parser = argparse.ArgumentParser(add_help=False)
    step.add_arguments(parser)
    return {action.dest: action for action in parser._actions}


def test_each_module_is_documented_and_routed_to_its_action_plugin() -> None:
    runtime = yaml.safe_load((ROOT / "ansible/meta/runtime.yml").read_text())
    routes = runtime["plugin_routing"]["modules"]
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted([*routes, *OWN_PLUGIN])
    assert sorted(routes) == NAMES
    assert all((FOLDER.parent / f"action/{name}.py").is_file() for name in OWN_PLUGIN)
    assert {route["action_plugin"] for route in routes.values()} == {"smt.hotplug.host_program"}


@pytest.mark.parametrize("name", [*NAMES, *OWN_PLUGIN])
def test_a_module_documents_what_it_takes_and_returns(name: str) -> None:
    own = documented(name)
    assert own["module"] == name
    assert documented(name, "RETURN")
    (play, *_) = examples = documented(name, "EXAMPLES")
    assert f"smt.hotplug.{name}" in play
    for task in examples:
        used = task.get(f"smt.hotplug.{name}") or {}
        assert set(used) <= set(own["options"]) | set(SHARED), task["name"]
        missing = {key for key, option in own["options"].items() if option.get("required")} - set(used)
        assert not missing or f"smt.hotplug.{name}" not in task


def test_the_shared_options_are_those_of_the_doc_fragment() -> None:
    text = (ROOT / "ansible/plugins/doc_fragments/host_program.py").read_text()
    fragment = yaml.safe_load(text.split('"""')[5])
    assert {
        name: {key: value for key, value in option.items() if key != "description"}
        for name, option in fragment["options"].items()
    } == SHARED


@pytest.mark.parametrize("name", [name for name in NAMES if MODULES[name].words[:1] != ("preflight",)])
def test_a_step_knows_each_option_of_its_module(name: str) -> None:
    words = MODULES[name].words or ("smt-unit",)
    assert words[0] in STEPS
    known = step_options(words)
    options = documented(name)["options"]
    switch = {"level", "tune_fqs"} if name == "smt_switch" else set()
    lock = {"action", "staging", "record", "token", "lease"} if name == "run_lock" else set()
    assert set(options) - switch - lock <= set(known)
    assert set(known) - GIVEN <= set(options)
    for option, action in known.items():
        if option in options and action.choices:
            assert list(options[option]["choices"]) == list(action.choices)


@given(
    st.dictionaries(
        st.sampled_from(["release", "kexec_option", "as_default", "before", "seconds"]),
        st.one_of(st.none(), st.booleans(), st.text(), st.integers(), st.lists(st.text()), st.just({"a": 1})),
    )
)
def test_options_reach_the_program_whole(options: dict[str, Any]) -> None:
    words = MODULES["kexec_image"].arguments(options, Task(sysroot="/x"))
    assert words[0] == "kexec-load" and words[-1] == "--sysroot=/x"
    given_words = iter(words[1:-1])
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, list):
            assert [next(given_words) for _ in value] == [f"{flag}={item}" for item in value]
        elif value is True:
            assert next(given_words) == flag
        elif value not in (None, "", False) or (value == 0 and value is not False):
            word = next(given_words)
            text = word.removeprefix(f"{flag}=")
            assert (json.loads(text) if isinstance(value, dict) else text) == (
                value if isinstance(value, dict) else str(value)
            )
    assert list(given_words) == []


@pytest.mark.parametrize("name", sorted(MODULES))
def test_check_mode_asks_what_would_change(name: str) -> None:
    options: dict[str, Any] = {
        "action": "acquire",
        "level": "off",
        "staging": "/s",
        "timeout": 60,
        "lease": 60,
        "record": {},
    }
    task = {"token": "t", "owner": "o", "started": "s"}
    checked = MODULES[name].arguments(options, Task(check=True, lock=task))
    assert ("--dry-run" in checked) == (name not in ("host_state", "host_health"))
    assert "--dry-run" not in MODULES[name].arguments(options, Task(lock=task))


def test_check_mode_has_no_run_that_holds_the_host() -> None:
    options, lock = {"action": "acquire", "staging": "/s"}, {"token": "t"}
    assert run_after("run_lock", options, Task(check=True, lock=lock)) is None
    assert run_after("run_lock", options, Task(lock=lock)) == "t:/s/lock.json"


def test_check_mode_never_starts_a_switch() -> None:
    options = {"action": "start", "level": "off", "timeout": 7200, "staging": "/s", "tune_fqs": True}
    words = MODULES["smt_switch"].arguments(options, Task(check=True))
    assert words[0] == "smt" and words[-1] == "--dry-run" and "--tune-fqs" in words
    assert MODULES["smt_switch"].arguments(options, Task())[0] == "smt-unit"
    clocksource = MODULES["clocksource"].arguments({"apply": "hpet", "record": "/r"}, Task(check=True))
    assert clocksource[:2] == ["clocksource", "--dry-run"]


def test_a_fallback_is_longer_where_hosts_share_a_fork() -> None:
    options = {"action": "arm", "seconds": 600}
    assert "--seconds=1800" in MODULES["boot_fallback"].arguments(options, Task(turns=3))
    assert not [
        word for word in MODULES["boot_fallback"].arguments({"action": "disarm"}, Task()) if "seconds" in word
    ]


@pytest.mark.parametrize(
    ("hosts", "forks", "expected"), [(1, 10, 1), (10, 10, 1), (11, 10, 2), (0, 10, 1), (5, 0, 5)]
)
def test_turns(hosts: int, forks: int, expected: int) -> None:
    assert turns(hosts, forks) == expected


def test_a_lock_names_the_run() -> None:
    lock = {"token": "t", "owner": "root@lab", "started": "now"}
    options = {"action": "acquire", "staging": "/s", "record": {"switch": "off"}, "lease": 600}
    where, acquire = MODULES["run_lock"].arguments(options, Task(lock=lock, turns=2))[1:]
    assert where == "--lock=/s/lock.json"
    assert json.loads(acquire.removeprefix("--acquire=")) == {"switch": "off", "lease": 1200, **lock}
    release = MODULES["run_lock"].arguments(
        {"action": "release", "staging": "/s", "token": "any"}, Task(lock=lock)
    )
    assert release[-1] == "--release=any"


def test_what_is_done_for_a_run_names_it() -> None:
    assert environment(Task()) == ""
    assert environment(Task(run="t:/s p/lock.json")) == "HOTPLUG_RUN='t:/s p/lock.json' "


@pytest.mark.parametrize(
    ("module", "action", "run"),
    [
        ("run_lock", "acquire", "t:/s/lock.json"),
        ("run_lock", "release", ""),
        ("smt_switch", "start", None),
        ("smt_switch", "finish", ""),
        ("boot_fallback", "arm", None),
        ("smt_state", None, None),
    ],
)
def test_which_run_has_the_host_afterwards(module: str, action: str | None, run: str | None) -> None:
    options = {"staging": "/s"} | ({"action": action} if action else {})
    assert run_after(module, options, Task(lock={"token": "t"})) == run


@pytest.mark.parametrize(
    ("variables", "owner"),
    [
        ({}, "root@lab"),
        ({"fleet_change": "CHG42"}, "root@lab for CHG42"),
        ({"awx_job_id": 7, "awx_user_name": "ann"}, "ann in AWX job 7"),
        ({"awx_job_id": 7, "fleet_change": "CHG42"}, "AWX in AWX job 7 for CHG42"),
    ],
)
def test_the_owner_of_a_lock(variables: dict[str, Any], owner: str) -> None:
    assert lock_owner(variables, "root@lab") == owner


@pytest.mark.parametrize(
    ("code", "output", "errors", "values", "fault"),
    [
        (0, 'banner\n{"changed": true}\n', "", {"changed": True}, ""),
        (1, '{"error": "no such CPU"}', "", {"error": "no such CPU"}, "no such CPU"),
        (7, '{"changed": true}', "", {"changed": True}, "exit code 7"),
        (127, "", "sh: python3: not found\n", {}, "sh: python3: not found"),
        (0, "", "", {}, "exit code 0"),
        (0, "{not json}", "", {}, "{not json}"),
    ],
)
def test_the_answer_of_a_host(code: int, output: str, errors: str, values: Any, fault: str) -> None:
    answer = answer_of(code, output, errors)
    assert dict(answer.values) == values
    assert answer.fault == fault


def test_a_failure_is_one_line_with_a_next_step() -> None:
    module: HostModule = MODULES["smt_state"]
    assert module.fault("lpar1", {"level": "off"}, "CPU 7 is online") == (
        "lpar1: SMT could not be set to off: CPU 7 is online;"
        " look for refused CPUs in the kernel log of the host"
    )
    held = {"action": "acquire", "next_step": "break it by -e ab_break_lock=TOKEN"}
    said = MODULES["run_lock"].fault("lpar1", held, "root@desk has it", {"token": "t7"})
    assert said == "lpar1: the lock is not acquired: root@desk has it; break it by -e ab_break_lock=t7"
    told = {"level": "off", "what": "SMT is not back", "next_step": "call the owner"}
    assert module.fault("lpar1", told, "gone") == "lpar1: SMT is not back: gone; call the owner"
