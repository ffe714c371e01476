"""Guests of both architectures, side by side, driven over SSH."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotplug_host.errors import ExitCode
from hotplug_timer.reader import Run, read_files
from tests.lab.labtools import Lab, wait_for

# An x86-64 kernel and base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(2700)]

POWER, X86 = "p10", "pc"
SHAPE = ("--cores", "2", "--threads", "2")
NO_SMT = ("--cores", "2", "--threads", "1")
"""With SMT, QEMU itself may deadlock when a POWER kernel panics: see Problems in the lab's guide."""


@pytest.fixture(scope="module", autouse=True)
def guests(lab: Lab) -> Iterator[None]:
    lab.must("up", POWER, "--arch", "ppc64le", *SHAPE, timeout=2400)
    lab.must("up", X86, "--arch", "x86_64", "--variant", "patched", *SHAPE, timeout=2400)
    yield
    lab.must("down", "--all")


def switch(lab: Lab, guest: str, folder: Path, *options: str) -> Run:
    """Time SMT off and on in a guest with the copy of the timer that travels; return the checked result."""
    lab.install_timer(guest, folder)
    command = "python3 hotplug-timer.pyz run smt=off smt=on --variant here --iterations 2 --settle 0"
    lab.must("ssh", guest, "--", *command.split(), *options, "--output", "result.jsonl", timeout=300)
    result = folder / "result.jsonl"
    result.write_text(lab.must("ssh", guest, "--", "cat", "result.jsonl"))
    (run,) = read_files([result]).runs
    assert (run.outcome, run.restored, run.host.emulated) == ("complete", True, True)
    assert (run.shape.cores, run.shape.threads_per_core) == (2, 2)
    assert [item.status for item in run.iterations] == ["ok"] * 6
    return run


def answer(lab: Lab, *command: str) -> str:
    """What a guest answers, nothing while it cannot."""
    try:
        return lab.run(*command, timeout=20).stdout
    except subprocess.TimeoutExpired:
        return ""


def test_each_guest_has_its_own_port_kernel_and_place_in_the_inventory(lab: Lab) -> None:
    status = lab.status()
    assert set(status) == {POWER, X86}
    assert {row["state"] for row in status.values()} == {"running"}
    assert status[POWER]["ssh_port"] != status[X86]["ssh_port"]
    for name, row in status.items():
        asked = lab.must("ssh", name, "--", "hostname; uname -rm; getconf _NPROCESSORS_ONLN").split()
        assert asked == [name, row["release"], row["arch"], "4"]
        assert f"ansible_port: {row['ssh_port']}" in lab.inventory


def test_x86_switches_through_smt_control(lab: Lab, tmp_path: Path) -> None:
    run = switch(lab, X86, tmp_path)
    assert run.host.machine == "x86_64"
    assert {(item.driver, item.path) for item in run.iterations} == {("smt-control", "smt/control")}


def test_power_switches_through_ppc64_cpu(lab: Lab, tmp_path: Path) -> None:
    run = switch(lab, POWER, tmp_path)
    assert run.host.machine == "ppc64le"
    assert {(item.driver, item.path) for item in run.iterations} == {("ppc64_cpu", "smt/control")}


def test_a_name_is_taken_while_its_guest_runs(lab: Lab) -> None:
    done = lab.run("up", POWER, *SHAPE)
    assert (done.returncode, "already running" in done.stderr) == (ExitCode.USAGE, True)
    assert lab.status()[POWER]["state"] == "running"


def test_a_panic_shows_in_the_status_and_the_guest_comes_back(lab: Lab) -> None:
    guest = "panics"
    lab.must("up", guest, *NO_SMT)
    assert lab.status()[guest]["console"]["verdict"] in ("clean", "warning")
    boot_id = ("ssh", guest, "--", "cat", "/proc/sys/kernel/random/boot_id")
    before = lab.must(*boot_id)
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
    assert wait_for(lambda: answer(lab, *boot_id), 300) != before
    lab.must("down", guest)


def test_down_leaves_the_other_guest_then_nothing(lab: Lab) -> None:
    lab.kill_qemu(POWER)
    wait_for(lambda: lab.status()[POWER]["state"] == "gone", 20)
    lab.must("down", POWER)
    assert set(lab.status()) == {X86}
    assert POWER not in lab.inventory
    lab.must("down", X86)
    lab.must("down", X86)
    lab.assert_empty()
