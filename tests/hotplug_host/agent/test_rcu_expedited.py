"""Expediting all grace periods of a kernel while it is timed, and putting that back."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest

from tests.hotplug_host.agent.conftest import Step


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    file = tmp_path / "sys/kernel/rcu_expedited"
    file.parent.mkdir(parents=True)
    file.write_text("0\n")
    return file


def expedited(step: Step, root: Path, value: str) -> tuple[int, dict[str, Any]]:
    return step("rcu-expedited", f"--sysroot={root}", f"--value={value}")


def test_it_is_set_and_put_back(tmp_path: Path, setting: Path, step: Step) -> None:
    assert expedited(step, tmp_path, "1") == (0, {"changed": True, "before": "0", "now": "1"})
    assert setting.read_text() == "1"
    assert expedited(step, tmp_path, "0") == (0, {"changed": True, "before": "1", "now": "0"})
    assert setting.read_text() == "0"
    assert expedited(step, tmp_path, "0") == (0, {"changed": False, "before": "0", "now": "0"})


def test_a_kernel_that_expedites_anyway_is_no_such_variant(tmp_path: Path, setting: Path, step: Step) -> None:
    """Every variant would be expedited: the comparison would be of nothing."""
    setting.write_text("1\n")
    code, answer = expedited(step, tmp_path, "1")
    assert (code, answer["error"].partition(",")[0]) == (3, f"{setting} says 1 already")
    assert "leave out the variant with rcu_expedited" in answer["error"]
    assert setting.read_text() == "1\n"


def test_a_setting_that_cannot_be_set_says_why(tmp_path: Path, setting: Path, step: Step) -> None:
    (setting.parent / "rcu_normal").write_text("1\n")
    code, answer = expedited(step, tmp_path, "1")
    assert (code, "forbids expedited grace periods" in answer["error"]) == (3, True)
    assert setting.read_text() == "0\n"
    assert expedited(step, tmp_path, "0") == (0, {"changed": False, "before": "0", "now": "0"})

    setting.unlink()
    code, answer = expedited(step, tmp_path, "1")
    assert (code, answer["error"].partition(";")[0]) == (
        3,
        f"cannot read {setting}: No such file or directory",
    )


def test_a_value_that_the_kernel_does_not_keep_is_told(
    tmp_path: Path, setting: Path, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hotplug_host.sysfs.Sysfs.write", lambda _fs, _name, _text: None)
    assert expedited(step, tmp_path, "1") == (5, {"error": f"{setting} says 0 after 1 was written to it"})


def test_it_waits_for_no_switch_that_holds_the_settings(tmp_path: Path, setting: Path, step: Step) -> None:
    with setting.open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        code, answer = expedited(step, tmp_path, "1")
    assert (code, answer["error"]) == (
        3,
        "another hotplug-timer smt --expedite is at work; wait until it is done",
    )
    assert setting.read_text() == "0\n"
