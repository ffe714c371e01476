"""What roles decide in filters, called as the functions they are."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.fake_lpar import ANSIBLE


def load(name: str) -> ModuleType:
    """Return a file of filters as the module it is."""
    spec = importlib.util.spec_from_file_location(name, ANSIBLE / f"plugins/filter/{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


decisions = load("decisions")
STOCK, PATCHED = {"name": "stock", "artifact": "/a.json"}, {"name": "patched", "release": "running"}


def settings(**changed: Any) -> dict[str, Any]:
    return {
        "variants": [STOCK, PATCHED],
        "variant_name": "stock",
        "iterations": 3,
        "repeat": "2",
        "operations": ["smt=off", "smt=on", "cores-on=all", "cpus=1,3-5:off@1.5"],
        "once": False,
        "results_dir": "/results",
        "host_results": "/results/raw/lpar1",
        "timer_bundle": "",
        "earlier": [],
    } | changed


def test_filters_have_the_names_that_roles_use() -> None:
    modules = [load(path.stem) for path in (ANSIBLE / "plugins/filter").glob("*.py")]
    found = {name: one for module in modules for name, one in module.FilterModule().filters().items()}
    files = [path for part in ("roles", "playbooks") for path in (ANSIBLE / part).rglob("*.yml")]
    used = {name for path in files for name in re.findall(r"[|] smt[.]hotplug[.](\w+)", path.read_text())}
    assert set(found) == used
    assert all(function.__doc__ for function in found.values())


def test_good_variables_have_no_problem() -> None:
    assert decisions.ab_problems(settings()) == []
    assert decisions.ab_running_problems(settings(variants=[])) == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"variants": [STOCK]}, "names 1 variants; name two or more"),
        ({"variants": [STOCK, {**PATCHED, "name": "stock"}]}, "'stock, stock', twice the same"),
        (
            {"variants": [STOCK, {**PATCHED, "name": "a b"}]},
            "'a b', which cannot go on a kernel command line",
        ),
        ({"variants": [STOCK, {**PATCHED, **STOCK, "name": "x"}]}, "variant 'x' has not one of artifact and"),
        ({"variants": [STOCK, {"name": "x"}]}, "variant 'x' has not one of artifact and release"),
        ({"earlier": ["/results/raw/lpar1/01-stock.jsonl"]}, "/results/raw/lpar1 holds the results"),
        ({"iterations": 0}, "ab_iterations is 0; ask for at least 1"),
        ({"repeat": "-1"}, "ab_repeat is -1; ask for at least 1"),
        ({"operations": []}, "ab_operations is []; use a list of"),
        ({"operations": ["smt=off", "smt=half"]}, '["smt=off", "smt=half"]; use a list of'),
        ({"operations": ["smt=off\n"]}, "use a list of"),
        ({"results_dir": "results"}, "ab_results_dir is 'results'; give an absolute path"),
        ({"timer_bundle": "/nowhere"}, "ab_timer_bundle is /nowhere, which does not exist"),
    ],
)
def test_each_problem_is_named(changed: dict[str, Any], problem: str) -> None:
    (found,) = decisions.ab_problems(settings(**changed))
    assert problem in found


@pytest.mark.parametrize("once", [True, "True", "yes"])
def test_a_history_goes_on_beside_earlier_results(once: object) -> None:
    assert decisions.ab_problems(settings(earlier=["01-stock.jsonl"], once=once)) == []


def test_a_running_kernel_needs_a_name_that_a_file_can_have() -> None:
    (found,) = decisions.ab_running_problems(settings(variant_name="../x"))
    assert found.startswith("ab_variant_name is '../x', and part of a file's name")


def test_two_kernels_go_forth_and_back() -> None:
    assert decisions.ab_order(2, 2) == [0, 1, 1, 0, 0, 1, 1, 0]
    assert decisions.ab_order(1, 4) == [0]


@given(st.integers(2, 9), st.integers(1, 9))
def test_no_kernel_is_on_the_whole_later_than_another(kernels: int, repeat: int) -> None:
    order = decisions.ab_order(kernels, repeat)
    places = [[at for at, one in enumerate(order) if one == kernel] for kernel in range(kernels)]
    assert {len(one) for one in places} == {2 * repeat}
    assert len({sum(one) for one in places}) == 1


def test_variants_that_expedite_are_named() -> None:
    variants = [STOCK, PATCHED | {"rcu_expedited": "true"}, {"name": "x", "rcu_expedited": False}]
    assert decisions.ab_expedited(variants) == ["patched"]


@pytest.mark.parametrize(
    ("measured", "left"),
    [
        ([], ["a", "b", "a"]),
        (["a"], ["b", "a"]),
        (["a", "b", "b"], ["a"]),
        (["a", "a", "b"], []),
    ],
)
def test_each_whole_result_leaves_one_time_less(measured: list[str], left: list[str]) -> None:
    assert decisions.ab_turns(["a", "b", "a"], measured) == left


def test_events_are_counted_in_the_first_block_of_each_kernel() -> None:
    names = ["stock", "patched", "patched", "stock"]
    assert [decisions.ab_counts(2, names, place, []) for place in range(4)] == [2, 2, 0, 0]
    # A run that goes on has the counts of what is whole; a block that was cut short comes again with them.
    assert [decisions.ab_counts(1, names[2:], place, ["stock"]) for place in range(2)] == [1, 0]


RUN = {"record": "run", "variant": "stock", "host": {"kernel_release": "6.12-a"}}
END = {"record": "end", "outcome": "complete"}


@pytest.mark.parametrize(
    ("lines", "counts"),
    [
        ([json.dumps(RUN), json.dumps(END)], True),
        ([json.dumps({**RUN, "variant": "", "label": "stock"}), json.dumps(END)], False),
        ([json.dumps({"record": "run", "label": "stock", "host": RUN["host"]}), json.dumps(END)], True),
        ([json.dumps(RUN), json.dumps({**END, "outcome": "interrupted"})], False),
        ([json.dumps(RUN), json.dumps(END)[:-5]], False),
        ([json.dumps(RUN)], False),
        ([json.dumps(RUN | {"host": {"kernel_release": "6.12-b"}}), json.dumps(END)], False),
        ([json.dumps(RUN | {"variant": "other"}), json.dumps(END)], False),
        ([], False),
    ],
)
def test_what_is_measured_already(tmp_path: Path, lines: list[str], counts: bool) -> None:
    """A complete result of the kernel that is there now."""
    path = tmp_path / "01-stock.jsonl"
    path.write_text("\n".join(lines))
    found = decisions.ab_whole([str(path)], {"stock": {"release": "6.12-a"}})
    assert found == ([{"path": str(path), "variant": "stock"}] if counts else [])


def test_a_result_names_its_recordings(tmp_path: Path) -> None:
    path = tmp_path / "01-stock.jsonl"
    iteration = {"record": "iteration", "detail": {"trace": {"file": "x.states.txt"}}}
    bare = {"record": "iteration", "detail": {"trace": None}}
    path.write_text(
        "\n".join(json.dumps(one) for one in (RUN, iteration, bare, {"record": "iteration"}, END))
    )
    assert decisions.smt_result(str(path)) == {"run": RUN, "end": END, "recordings": ["x.states.txt"]}
    assert decisions.smt_result(str(tmp_path / "none")) == {"run": {}, "end": {}, "recordings": []}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (("root=/dev/vda ro", "stock", 10, "", False), "root=/dev/vda ro panic=10 V=stock"),
        (("root=/dev/vda panic=5", "stock", 10, "", False), "root=/dev/vda panic=5 V=stock"),
        (("panic=-1", "stock", 10, "", False), "panic=-1 V=stock"),
        (("ro panic=0", "stock", 10, "", False), "ro panic=0 panic=10 V=stock"),
        (("ro", "stock", 0, "", False), "ro V=stock"),
        (("ro V=patched quiet", "stock", 0, "nosmt x=1", False), "ro quiet nosmt x=1 V=stock"),
        (("ro", "x", 10, "a", True), "ro panic=10 a rd.shell=0 rd.emergency=reboot V=x"),
        (("", "", 10, "", False), "panic=10"),
    ],
)
def test_the_command_line_of_a_boot(given: tuple[str, str, int, str, bool], wanted: str) -> None:
    ours = "hotplug_acceleration.variant="
    cmdline = given[0].replace("V=", ours)
    assert decisions.boot_command_line(cmdline, *given[1:]) == wanted.replace("V=", ours)


DEFAULT = {"release": "6.12-debian"}


@pytest.mark.parametrize(
    ("state", "record", "trial"),
    [
        ({"release": "6.12-debian"}, DEFAULT, False),
        ({"release": "6.12-debian-2"}, DEFAULT, False),  # an update of the distribution's
        ({"release": "6.12-debian", "variant": "stock"}, DEFAULT, True),
        ({"release": "6.12-smt", "deployment": {"release": "6.12-smt"}}, DEFAULT, True),
        ({"release": "6.12-smt"}, DEFAULT | {"trials": ["6.12-smt"]}, True),
        ({"release": "6.12-debian"}, DEFAULT | {"trials": ["6.12-debian"]}, False),
        ({"release": "6.12-a", "variant": "a"}, {"release": "6.12-a", "variant": "a"}, False),
        ({"release": "6.12-b", "variant": "a"}, {"release": "6.12-a", "variant": "a"}, True),
        ({"release": "6.12-debian"}, {}, False),
        ({"release": "6.12-debian", "variant": "stock"}, {}, True),
    ],
)
def test_a_trial_kernel_is_told_from_the_default(
    state: dict[str, Any], record: dict[str, Any], trial: bool
) -> None:
    assert decisions.boot_is_trial({"variant": None, "deployment": None} | state, record) is trial


@pytest.mark.parametrize(
    ("found", "record", "loader", "told"),
    [
        ("6.12-debian", DEFAULT, {"release": "6.12-debian"}, ""),
        ("6.12-debian", DEFAULT, {}, ""),
        ("6.12-debian", {}, {"release": "6.12-debian"}, ""),
        ("6.12-debian-2", {}, {"why": "no GRUB"}, ""),
        (
            "6.12-debian-2",
            DEFAULT,
            {"release": "6.12-debian-2"},
            "now and was 6.12-debian before the run; check",
        ),
        (
            "6.12-debian-2",
            DEFAULT,
            {"why": "no GRUB"},
            "the run (what the boot loader names cannot be read: no GRUB)",
        ),
        (
            "6.12-debian",
            DEFAULT,
            {"release": "6.12-debian-2"},
            "the boot loader names 6.12-debian-2 as default, and",
        ),
        ("6.12-debian-2", DEFAULT, {"release": "6.12-debian-3"}, "NO: the boot loader names 6.12-debian-3"),
        ("6.12-debian-2", {}, {"release": "6.12-debian"}, "NO: the boot loader names 6.12-debian as default"),
        ("6.12-smt", DEFAULT | {"trials": ["6.12-smt"]}, {"why": "no GRUB"}, "NO: came back with 6.12-smt"),
        (
            "6.12-smt",
            DEFAULT | {"trials": ["6.12-smt"]},
            {"release": "6.12-debian"},
            "NO: with 6.12-smt, a kernel",
        ),
        ("6.12-smt", DEFAULT | {"trials": ["6.12-smt"]}, {"release": "6.12-smt"}, "is 6.12-smt now and was"),
        ("6.12-deployed", DEFAULT, {"release": "6.12-deployed"}, "NO: with 6.12-deployed, a kernel of a run"),
        ("6.12-b", {"release": "6.12-a", "variant": "a"}, {}, "NO: with 6.12-b, a kernel of a run"),
    ],
)
def test_what_runs_after_a_rollback_is_held_against_the_boot_loader(
    found: str, record: dict[str, Any], loader: dict[str, str], told: str
) -> None:
    """A problem is marked by NO: each of them fails the rollback, and a warning does not."""
    state = {"variant": "patched", "release": "6.12-trial", "deployment": {"release": "6.12-deployed"}}

    findings = decisions.boot_default_findings(found, state, record, loader)

    stops, words = told.startswith("NO: "), told.removeprefix("NO: ")
    assert bool(findings["problem"]) == stops
    assert bool(findings["warning"]) == (not stops and told != "")
    assert words in findings["problem"] + findings["warning"]
