"""The row of a host: what a run knows of the lease of its lock."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from smt_fleet import runs, summary
from smt_fleet.outcome import outcome
from smt_fleet.recorder import Recorder

HELD = {"held": True, "lease": 600, "token": "t"}
GIVEN_BACK = {"held": False, "lease": 600, "token": "t"}


def rows(folder: Path, minutes: int) -> list[object]:
    """Return the cells in the column of locks, so many minutes after the last event but the first."""
    events = list(runs.events(folder))
    for event in events:
        assert isinstance(event, dict)
        event["at"] = "2026-11-25T03:00:00+00:00"
    now = datetime.fromisoformat(f"2026-11-25T03:{minutes:02}:00+00:00")
    (table,) = summary.sheet("run", outcome(events, undoes=False), now).tables
    return [dict(zip(table.headings, cells, strict=True))["lock"] for cells in table.cells]


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (3, "last sign of life 3 min 00 s ago, its lease runs out in 7 min 00 s"),
        (30, "last sign of life 30 min 00 s ago, its lease ran out 20 min 00 s ago"),
    ],
)
def test_a_host_that_is_held_has_the_age_of_the_last_step_there(
    tmp_path: Path, minutes: int, words: str
) -> None:
    recorder = Recorder(tmp_path)
    recorder.plan(["lpar1", "lpar2", "lpar3"])
    for name in ("lpar1", "lpar2"):
        recorder.result(name, ["ab"], "smt.hotplug.run_lock", False, HELD)
    recorder.result("lpar2", ["ab"], "smt.hotplug.run_lock", False, GIVEN_BACK)
    assert rows(tmp_path, minutes) == [words, "-", "-"]


def test_only_a_step_on_the_host_is_a_sign_of_life(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.plan(["lpar1"])
    for action, said in (
        ("smt.hotplug.rcu_expedited", {}),
        ("smt.hotplug.smt_state", {"skipped": True}),
        ("ansible.builtin.debug", {}),
    ):
        recorder.result("lpar1", ["ab"], action, False, said)
    assert [event["event"] for event in runs.events(tmp_path)] == ["planned", "phase", "renews"]


def test_a_host_on_which_kernels_were_compared_has_the_level_and_the_seconds_of_both(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.plan(["lpar1"])
    rows = [
        {"operation": operation, "variant": kernel, "median_s": seconds, "n": 4}
        for operation, medians in (("smt=off", (41.24, 3.1)), ("smt=on", (20.0, 0.5)))
        for kernel, seconds in zip(("stock", "patched"), medians, strict=True)
    ]
    state = {"release": "6.12", "cpus": {"online": "0-7"}, "smt": {"level": "on"}}
    off = {"changed": True, "online": "0,4", "level": "off", "seconds": 3.0}
    for action, said in (
        ("smt.hotplug.host_state", {"facts": state}),
        ("set_fact", {"ansible_facts": {"ab_compared": {"comparisons": rows}}}),
        ("smt.hotplug.smt_switch", off),
    ):
        recorder.result("lpar1", ["ab"], action, False, said)
    files = summary.files("run", outcome(runs.events(tmp_path), undoes=False))
    (row,) = json.loads(files["summary.json"])["hosts"]
    assert (row["level_before"], row["level_after"]) == ("on", "off")
    assert row["measured_seconds"]["smt=off"] == {"stock": 41.24, "patched": 3.1}
    words = "smt=off: stock 41.2 s, patched 3.10 s; smt=on: stock 20.0 s, patched 0.500 s"
    assert words in files["summary.md"]
    assert words in files["summary.csv"]


@pytest.mark.parametrize(
    ("said", "cell"),
    [
        ({"health": {}, "worse": []}, "as before"),
        ({"health": {}}, "-"),
        (
            {"failed": True, "worse": ["nginx.service has failed", "/srv is not mounted"]},
            "nginx.service has failed, /srv is not mounted",
        ),
        ({"failed": True, "reached": True, "msg": "the host's health cannot be read"}, "-"),
    ],
)
def test_how_a_host_does_after_a_boot_is_in_its_row(
    tmp_path: Path, said: dict[str, object], cell: str
) -> None:
    recorder = Recorder(tmp_path)
    recorder.plan(["lpar1"])
    if "failed" in said:
        recorder.failed("lpar1", ["deploy"], "smt.hotplug.host_health", said)
    else:
        recorder.result("lpar1", ["deploy"], "smt.hotplug.host_health", False, said)
    (table,) = summary.sheet("run", outcome(runs.events(tmp_path), undoes=False)).tables
    (row,) = (dict(zip(table.headings, cells, strict=True)) for cells in table.cells)
    assert row["health"] == cell
