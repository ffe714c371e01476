"""Costs that are measured in a guest: what is run there, what comes back, and that nothing stays there."""

import time
from pathlib import Path

import pytest

from hotplug_common import process
from hotplug_common.guest import ssh
from hotplug_host.errors import ExitCode, ToolError
from lpar_lab import costs

PROGRAM = """
import pathlib, sys
assert sys.argv[1:5] == ["measure-costs", "--settle", "0.5", "--output"]
target = pathlib.Path(sys.argv[5])
target.write_text("result")
target.with_name("costs.cpus=7,9-15-off.states.txt").write_text("a trace")
"""


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands in for the guest's /tmp: commands run in a shell of this machine."""
    monkeypatch.setattr(ssh, "command", lambda *_: ["sh", "-c"])
    monkeypatch.setattr(costs, "FOLDER", str(tmp_path / "inside/costs"))
    monkeypatch.setattr(costs, "BUNDLE", str(tmp_path / "inside/costs.pyz"))
    (tmp_path / "inside").mkdir()
    return tmp_path / "inside"


def test_the_result_and_its_traces_come_back_and_nothing_stays(inside: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pyz"
    bundle.write_text(PROGRAM)
    result = costs.measure(tmp_path, 22, bundle, tmp_path / "out", lambda: None, settle_s=0.5)
    assert {path.name: path.read_text() for path in result.parent.iterdir()} == {
        "costs.jsonl": "result",
        "costs.cpus=7,9-15-off.states.txt": "a trace",
    }
    assert list(inside.iterdir()) == []


def test_a_guest_that_is_lost_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise ToolError("QEMU ended", code=ExitCode.GUEST)

    monkeypatch.setattr(process, "TICK_S", 0.05)
    monkeypatch.setattr(costs, "CLEAN_S", 0.1)
    monkeypatch.setattr(ssh, "command", lambda *_: ["sh", "-c", "exec sleep 60"])
    bundle = tmp_path / "bundle.pyz"
    bundle.write_text(PROGRAM)
    began = time.monotonic()
    with pytest.raises(ToolError, match="QEMU ended"):
        costs.measure(tmp_path, 22, bundle, tmp_path / "out", lost, settle_s=0.5)
    assert time.monotonic() - began < 30


def test_what_fails_in_the_guest_is_told_in_a_line(inside: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pyz"
    bundle.write_text("import sys; sys.exit('hotplug-timer: error: CPU 9 is busy')")
    with pytest.raises(ToolError, match="the guest's costs: hotplug-timer: error: CPU 9 is busy") as caught:
        costs.measure(tmp_path, 22, bundle, tmp_path / "out", lambda: None, settle_s=0.5)
    assert caught.value.code == ExitCode.GUEST
    assert list(inside.iterdir()) == []
