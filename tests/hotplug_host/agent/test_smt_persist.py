"""What makes an SMT level hold after a reboot."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hotplug_host.agent.conftest import Step

UNIT = "etc/systemd/system/hotplug-acceleration-smt.service"
LINK = "etc/systemd/system/multi-user.target.wants/hotplug-acceleration-smt.service"
RECORD = {"boot_id": "b1", "smt_level": "8", "online": "0-15"}
Call = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def persist(tmp_path: Path, step: Step, tool: Callable[[str, str], None]) -> Call:
    """Call the step on a host whose smtstate.service has the state that a file `state` says."""
    control = tmp_path / "sys/devices/system/cpu/smt/control"
    control.parent.mkdir(parents=True)
    control.write_text("8\n")
    state, called = tmp_path / "state", tmp_path / "called"
    state.write_text("disabled\n")
    tool(
        "systemctl",
        f'echo "$*" >> {called}\n'
        f"case $1 in is-enabled) cat {state} ;; enable) echo enabled > {state} ;; esac",
    )

    def call(kind: str, *words: str) -> tuple[int, dict[str, Any]]:
        staging = f"--staging={tmp_path / 'staging'}"
        return step("smt-persist", f"--kind={kind}", staging, f"--sysroot={tmp_path}", *words)

    return call


def record(root: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((root / "staging/applied.json").read_text())
    return read


def test_a_unit_sets_the_level_at_boot_and_goes_without_a_trace(tmp_path: Path, persist: Call) -> None:
    words = ("--level=off", f"--record={json.dumps(RECORD)}")
    assert persist("unit", *words) == (0, {"changed": True, "before": "none", "now": "unit"})
    assert persist("unit", *words) == (0, {"changed": False, "before": "unit", "now": "unit"})
    text = (tmp_path / UNIT).read_text()
    assert "ExecStart=/bin/sh -c 'echo off > /sys/devices/system/cpu/smt/control'" in text
    assert (tmp_path / LINK).resolve() == tmp_path / UNIT
    verify = ["systemd-analyze", "verify", "--man=no", str(tmp_path / UNIT)]
    checked = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    # The first state before is the one to go back to.
    assert persist("unit", "--level=2", '--record={"smt_level": "off"}')[1]["changed"]
    assert record(tmp_path) == {**RECORD, "persists": {"kind": "unit"}}

    assert persist("none") == (0, {"changed": True, "before": "unit", "now": "none"})
    assert persist("none") == (0, {"changed": False, "before": "none", "now": "none"})
    assert not (tmp_path / UNIT).exists() and not (tmp_path / LINK).is_symlink()


def test_the_service_of_powerpc_utils_is_enabled_and_disabled_again(tmp_path: Path, persist: Call) -> None:
    assert persist("smtstate", "--level=off")[1]["changed"]
    assert not persist("smtstate", "--level=off")[1]["changed"]
    assert record(tmp_path)["persists"] == {"kind": "smtstate", "enabled": True}
    assert persist("none")[1]["changed"]
    assert (tmp_path / "called").read_text().splitlines()[-1] == "disable smtstate.service"


def test_what_was_enabled_before_stays_enabled(tmp_path: Path, persist: Call) -> None:
    (tmp_path / "state").write_text("enabled\n")
    assert not persist("smtstate", "--level=off")[1]["changed"]
    assert not persist("none")[1]["changed"]
    assert "disable smtstate.service" not in (tmp_path / "called").read_text()


def test_one_way_takes_the_place_of_the_other(tmp_path: Path, persist: Call) -> None:
    persist("smtstate", "--level=off")
    assert persist("unit", "--level=off")[1] == {"changed": True, "before": "smtstate", "now": "unit"}
    assert "disable smtstate.service" in (tmp_path / "called").read_text()
    assert record(tmp_path)["persists"] == {"kind": "unit"}


def test_a_host_without_the_service_is_told(tmp_path: Path, persist: Call) -> None:
    (tmp_path / "state").write_text("not-found\n")
    code, answer = persist("smtstate", "--level=off")
    assert code == 3
    assert answer["error"].endswith("install powerpc-utils, or use smt_switch_persist=unit")
    assert not (tmp_path / "staging").exists()


def test_a_kernel_that_does_not_switch_has_ppc64_cpu_do_it(
    tmp_path: Path, persist: Call, tool: Callable[[str, str], None]
) -> None:
    (tmp_path / "sys/devices/system/cpu/smt/control").write_text("notimplemented\n")
    code, answer = persist("unit", "--level=off")
    assert (code, "ppc64_cpu can set SMT at boot" in answer["error"]) == (3, True)
    tool("ppc64_cpu", "exit 0")
    assert persist("unit", "--level=off")[0] == 0
    assert "bin/ppc64_cpu --smt=off" in (tmp_path / UNIT).read_text()
