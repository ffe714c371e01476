"""Cores that come and go: what is counted for one, and what is judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotplug_common.kernel.series import PATCHED, STOCK
from kernel_qualify import figures, keeping
from kernel_qualify.judge import cores
from kernel_qualify.judge.cores import ADD, REMOVE, Change, Run


def one(kernel: str = PATCHED, action: str = REMOVE, **changed: Any) -> Change:
    rendezvous = int(action == REMOVE)
    found = Change(kernel, action, cpus=24, switched=8, grace_periods=2, rendezvous=rendezvous, rebuilds=1)
    return replace(found, **changed)


def run(*found: Change) -> Run:
    every = [one(STOCK, ADD), one(STOCK, rendezvous=8, rebuilds=8, grace_periods=16), one(action=ADD)]
    return Run("6.12", "ppc64le", 8, {STOCK: "6.12-s", PATCHED: "6.12-p"}, (*every, *found))


def record(cpus: int, dlpar: int = 1) -> dict[str, Any]:
    calls = {"dlpar_cpu": dlpar, "synchronize_rcu": 2, "stop_machine_cpuslocked": 1}
    calls |= {"partition_sched_domains": 0, "partition_sched_domains_locked": 1}
    return {"present": list(range(cpus)), "online": list(range(cpus)), "calls": calls}


def test_a_change_is_what_happened_between_two_records() -> None:
    found = cores.change(PATCHED, REMOVE, record(24), record(16))
    assert found == one()


@pytest.mark.parametrize("calls", [0, 2])
def test_two_changes_are_not_taken_for_one(calls: int) -> None:
    with pytest.raises(ValueError, match="in place of one"):
        cores.change(PATCHED, REMOVE, record(24), record(16, calls))


def test_a_core_that_goes_as_it_should_is_no_problem() -> None:
    assert cores.problems(run(one())) == []


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"rendezvous": 8}, "patched: a core went with 8 rendezvous, 1 rebuilds and 2 grace periods"),
        ({"rebuilds": 8}, "patched: a core went with 1 rendezvous, 8 rebuilds and 2 grace periods"),
        ({"grace_periods": 5}, "patched: a core went with 1 rendezvous, 1 rebuilds and 5 grace periods"),
        ({"switched": 7}, "patched, remove: 7 of 8 threads switched"),
        (
            {"action": ADD, "rebuilds": 8},
            "patched: a core came with 0 rendezvous, 8 rebuilds and 2 grace periods",
        ),
    ],
)
def test_a_core_that_costs_too_much_is_a_problem(changed: dict[str, Any], found: str) -> None:
    assert cores.problems(run(one(), one(**changed))) == [found]


def test_a_run_without_a_removal_is_a_problem() -> None:
    assert cores.problems(run()) == ["patched, remove: no core was counted"]


def test_the_table_has_a_row_for_each_kernel_and_action() -> None:
    rows = cores.table([run(one(), one(grace_periods=1))]).splitlines()
    assert rows[-2:] == [
        "| ppc64le, 3 x 8 | add | stock | 1 | 2 | 0 | 1 |",
        "| ppc64le, 3 x 8 | add | patched | 1 | 2 | 0 | 1 |",
    ]
    assert rows[-3] == "| ppc64le, 3 x 8 | remove | patched | 2 | 1 to 2 | 1 | 1 |"
    assert len(rows) == 6


def test_a_run_is_read_as_it_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "CORES", tmp_path / "kept")
    path = keeping.save(run(one()), tmp_path / "cores.json")
    assert cores.load(path) == run(one())
    assert figures.keep(path, "6.12") == tmp_path / "kept/6.12-ppc64le-24.json"
    assert list(figures.core_runs().values()) == [run(one())]
