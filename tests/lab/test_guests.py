"""Guests side by side, driven over SSH."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hotplug_common.kernel.series import PATCHED, STOCK, VARIANTS
from hotplug_host.errors import ExitCode
from tests.lab.labtools import BOOT_ID, Lab, switch, wait_for

# Kernels and the base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(2700)]

SHAPE = ("--cores", "2", "--threads", "2")
NO_SMT = ("--cores", "2", "--threads", "1")
"""With SMT, QEMU itself may deadlock when a POWER kernel panics: see Problems in the lab's guide."""


@pytest.fixture(scope="module", autouse=True)
def guests(lab: Lab) -> Iterator[None]:
    for guest in VARIANTS:
        lab.must("up", guest, "--arch", "ppc64le", "--variant", guest, *SHAPE, timeout=2400)
    yield
    lab.must("down", "--all")


def test_each_guest_has_its_own_port_kernel_and_place_in_the_inventory(lab: Lab) -> None:
    status = lab.status()
    assert set(status) == {STOCK, PATCHED}
    assert {row["state"] for row in status.values()} == {"running"}
    assert status[STOCK]["ssh_port"] != status[PATCHED]["ssh_port"]
    for name, row in status.items():
        asked = lab.must("ssh", name, "--", "hostname; uname -rm; getconf _NPROCESSORS_ONLN").split()
        assert asked == [name, row["release"], row["arch"], "4"]
        assert f"ansible_port: {row['ssh_port']}" in lab.inventory


def test_power_switches_through_ppc64_cpu(lab: Lab, tmp_path: Path) -> None:
    run = switch(lab, STOCK, tmp_path)
    assert run.host.machine == "ppc64le"
    assert {(item.driver, item.path) for item in run.iterations} == {("ppc64_cpu", "smt/control")}


def test_a_name_is_taken_while_its_guest_runs(lab: Lab) -> None:
    done = lab.run("up", STOCK, *SHAPE)
    assert (done.returncode, "already running" in done.stderr) == (ExitCode.USAGE, True)
    assert lab.status()[STOCK]["state"] == "running"


def test_a_panic_shows_in_the_status_and_the_guest_comes_back(lab: Lab) -> None:
    guest = "panics"
    lab.must("up", guest, *NO_SMT)
    assert lab.status()[guest]["console"]["verdict"] in ("clean", "warning")
    before = lab.must("ssh", guest, "--", BOOT_ID).strip()
    lab.crash_kernel(guest)
    findings = wait_for(
        lambda: [
            found
            for found in lab.status()[guest]["console"]["findings"]
            if found["severity"] == "panic" and "sysrq triggered crash" in found["text"]
        ],
        60,
    )
    assert findings
    assert wait_for(lambda: lab.answer(guest, BOOT_ID, 20), 300) != before
    lab.must("down", guest)


def test_down_leaves_the_other_guest_then_nothing(lab: Lab) -> None:
    lab.kill_qemu(STOCK)
    wait_for(lambda: lab.status()[STOCK]["state"] == "gone", 20)
    lab.must("down", STOCK)
    assert set(lab.status()) == {PATCHED}
    assert STOCK not in lab.inventory
    lab.must("down", PATCHED)
    lab.must("down", PATCHED)
    lab.assert_empty()
