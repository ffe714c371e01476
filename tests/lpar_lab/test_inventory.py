import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hotplug_common.paths import Paths
from lpar_lab import inventory, state
from tests.lpar_lab.test_state import GUEST


def groups() -> dict[str, dict[str, dict[str, inventory.Scalar]]]:
    x86 = replace(GUEST, name="x1", arch="x86_64", ssh_port=40024, accel="kvm")
    return inventory.groups_of([(Path("/state/lab1"), GUEST), (Path("/state/x1"), x86)])


def test_inventory_is_the_golden_one(golden: Path) -> None:
    assert inventory.render(groups()) == (golden / "inventory.yml").read_text()


def test_inventory_is_yaml_that_says_what_ansible_needs() -> None:
    children = yaml.safe_load(inventory.render(groups()))["all"]["children"]
    assert set(children["smt_hosts"]["children"]) == {"power", "x86"}
    lab1 = children["power"]["hosts"]["lab1"]
    assert (lab1["ansible_port"], lab1["lab_emulated"]) == (40022, True)
    assert children["x86"]["hosts"]["x1"]["lab_emulated"] is False
    options = shlex.split(lab1["ansible_ssh_common_args"])
    assert "StrictHostKeyChecking=yes" in options
    assert "UserKnownHostsFile=/state/lab1/known_hosts" in options


def test_empty_groups_are_still_groups() -> None:
    children = yaml.safe_load(inventory.render(inventory.groups_of([])))["all"]["children"]
    assert children["power"] == {"hosts": {}}


def test_refresh_lists_only_running_guests(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lab1", "lab2"):
        folder = paths.guests / name
        folder.mkdir(parents=True)
        state.save(folder, replace(GUEST, name=name))
    monkeypatch.setattr(state, "is_running", lambda guest: guest.name == "lab2")
    text = inventory.refresh(paths).read_text()
    assert "lab2:" in text
    assert "lab1:" not in text
    assert [p.name for p in paths.inventory.parent.iterdir()] == ["lab.yml"]
