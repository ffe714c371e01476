"""The files of costs and what predict says of them; what a role asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hotplug_host.errors import ExitCode, ToolError
from smt_fleet import cli, forecast
from smt_fleet.costs import CHUNKS_PATCH, Job, Kernel, Seen
from tests import ROOT
from tests.samples.costfiles import EXAMPLE, KERNEL, costs_of
from tests.smt_fleet.test_costs import RELEASE, answer

#: Prints a file of costs as it is, where that is what predict would print of it.
TIMER = """#!/bin/sh
echo "$*" >> "$0.log"
grep -q predictions "$2" && exec cat "$2"
echo "hotplug-timer: note: odd" >&2
cat "$2" >&2
exit 4
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of costs, and a stand-in for hotplug-timer."""
    program = tmp_path / "bin/hotplug-timer"
    program.parent.mkdir()
    program.write_text(TIMER)
    program.chmod(0o755)
    monkeypatch.setattr(forecast.playbooks.sys, "executable", str(program.with_name("python")))
    costs = tmp_path / "costs"
    costs.mkdir()
    return costs


def called(folder: Path) -> str:
    return (folder.parent / "bin/hotplug-timer.log").read_text()


def test_every_host_has_a_forecast_or_why_it_has_none(folder: Path) -> None:
    (folder / "lpar1.jsonl").write_text(json.dumps(answer()))
    refusal = "the pieces come to 0.77 of the timed seconds: there is no prediction; measure again"
    (folder / "lpar2.jsonl").write_text(f"hotplug-timer: error: off: {refusal}")
    (folder / "lpar3.jsonl").write_text("Traceback")

    found = forecast.forecasts(folder, ["lpar1", "lpar2", "lpar3", "lpar4"], Job("apply", "off"))

    assert [one.minutes for one in found] == [7, None, None, None]
    assert [str(one) for one in found[1:]] == [
        f"lpar2: no prediction: {folder}/lpar2.jsonl: off: {refusal}",
        f"lpar3: no prediction: {folder}/lpar3.jsonl: Traceback; measure again",
        f"lpar4: no prediction: there is no {folder}/lpar4.jsonl; measure its costs with hotplug-timer"
        " measure-costs",
    ]


def test_a_patched_kernel_is_predicted_with_its_own_chunks(folder: Path) -> None:
    (folder / "lpar1.jsonl").write_text(json.dumps(answer()))
    found = forecast.of_host(folder, "lpar1", Job("apply", "off"), Seen("6.12-patched", 240, 1920, 16))
    assert found.words == "smt=off (patched) 4.0 to 60 s"
    assert called(folder).endswith("--format json --chunk 16\n")


@pytest.mark.slow
def test_predict_says_what_is_read(tmp_path: Path) -> None:
    found = forecast.read(costs_of(tmp_path, "lpar1"))
    assert (found.kernel, found.cpus, found.emulated) == (KERNEL, 16, True)
    assert set(found.seconds) == {(way, kind) for way in ("smt=off", "smt=on") for kind in Kernel}
    # The longest of its kind: firmware may stop CPUs one at a time.
    rows = json.loads((EXAMPLE / "predicted.json").read_text())["predictions"]
    highs = [
        row["high_s"] for row in rows if row["operation"] == "smt=off" and row["kernel"].startswith("patched")
    ]
    assert len(highs) == 2
    assert found.seconds["smt=off", Kernel.PATCHED].high == pytest.approx(max(highs))

    (tmp_path / "torn.jsonl").write_text("{")
    with pytest.raises(ToolError, match=r"torn\.jsonl") as caught:
        forecast.read(tmp_path / "torn.jsonl")
    assert caught.value.hint


def checked(output: Path, run: str, *rows: dict[str, Any]) -> None:
    (output / run).mkdir(parents=True)
    (output / run / "preflight.json").write_text(json.dumps({"hosts": rows}))


def test_the_last_look_at_a_host_counts(tmp_path: Path) -> None:
    facts = {"release": RELEASE, "cpus": {"online": "0-3", "present": "0-7"}}
    checked(tmp_path, "20261125T020000Z-check", {"host": "a", "facts": facts}, {"host": "b", "facts": facts})
    newer = {**facts, "release": "6.12"}
    checked(tmp_path, "20261126T020000Z-check", {"host": "a", "facts": newer}, {"host": "b", "facts": None})
    seen = forecast.last_seen(tmp_path)
    assert {name: (one.release, one.when) for name, one in seen.items()} == {
        "a": ("6.12", "20261126T020000Z-check"),
        "b": (RELEASE, "20261125T020000Z-check"),
    }
    (tmp_path / "20261126T020000Z-check/preflight.json").write_text("[]")
    with pytest.raises(ToolError, match=r"preflight\.json is no table of preflight"):
        forecast.last_seen(tmp_path)


def test_a_kernel_with_the_patches_is_known_by_its_artefact(tmp_path: Path) -> None:
    file = tmp_path / "artifact.json"
    for patches, patched in (([f"0014-{CHUNKS_PATCH}.patch"], True), (["0001-other.patch"], False)):
        file.write_text(json.dumps({"patches": patches}))
        assert forecast.switches_in_chunks(str(file)) is patched
    assert not forecast.switches_in_chunks("")
    file.write_text("[")
    with pytest.raises(ToolError, match=r"artifact\.json describes no kernel"):
        forecast.switches_in_chunks(str(file))


@pytest.mark.parametrize("line", ["6.12", "7.3"])
def test_the_series_has_the_patch_by_that_name(line: str) -> None:
    assert CHUNKS_PATCH in (ROOT / "kernel-patches/hotplug" / line / "series").read_text()


def test_a_role_is_told_minutes_and_reasons(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lpar1.jsonl").write_text(json.dumps(answer()))
    facts = {"release": RELEASE, "cpus": {"online": "0-1919", "present": "0-1919"}, "bulk_chunk": None}
    asked = {"folder": str(folder), "host": "lpar1", "facts": facts, "timeout": "200"}

    def told(**changes: Any) -> dict[str, Any]:
        assert (
            forecast.main([json.dumps({**asked, "job": {"action": "apply", "level": "off"}, **changes})]) == 0
        )
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    found = told()
    assert found["minutes"] == 7
    assert found["said"].startswith("lpar1: smt=off (expedited) 200 to 300 s, by ")
    assert [reason["step"] for reason in found["reasons"]] == ["raise ab_switch_timeout"]
    found = told(facts={**facts, "release": "6.5"})
    assert (found["minutes"], found["reasons"][0]["level"]) == (None, "go-with-warnings")
    # A host without costs is no less fit.
    found = told(host="lpar2")
    assert (found["minutes"], found["reasons"]) == (None, [])
    counted = {"action": "ab", "artifacts": ["", ""], "repeat": 2, "iterations": 3, "counted": 1}
    assert "26 x smt=off (stock)" in told(job=counted)["said"]
    once = {"action": "regress", "artifacts": ["", ""], "expedited": [False, True], "iterations": 3}
    said = told(job=once)["said"]
    assert "3 x smt=off (stock)" in said
    assert "3 x smt=off (expedited)" in said

    code = forecast.main([json.dumps({**asked, "job": {"action": "check"}, "folder": str(folder / "no")})])
    assert code == ExitCode.INPUT
    assert "there is no folder" in capsys.readouterr().err


def test_what_playbooks_assume_is_the_default() -> None:
    """Its role, which has the defaults, comes after the look at the clock."""
    defaults = yaml.safe_load((ROOT / "ansible/roles/ab/defaults/main/ab.yml").read_text())
    text = (ROOT / "ansible/playbooks/ab.yml").read_text()
    for name in ("ab_repeat", "ab_iterations"):
        assert f"{name} | default({defaults[name]})" in text
    assert defaults["ab_iterations"] == cli.ITERATIONS
    text = (ROOT / "ansible/playbooks/regress.yml").read_text()
    assert f"ab_iterations | default({cli.ITERATIONS})" in text
    settings = yaml.safe_load((ROOT / "ansible/roles/settings/defaults/main.yml").read_text())
    assert settings["ab_count_iterations"] == cli.COUNTED
