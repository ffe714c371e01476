"""A host that does not come back from a boot: the operator's power cycle, by a stand-in for ssh to an HMC."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ansible.test_ab import OWNER
from tests.ansible.test_smt_fleet import Fleet, fleet
from tests.fakes.fake_lpar import DEFAULT_CMDLINE, DEFAULT_RELEASE, MACHINE, REPO

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

EXAMPLE = yaml.safe_load((REPO / "inventory/example/hmc.yml").read_text())["all"]["children"]["power"]["vars"]
SYSTEM = "Server-9080-HEX-SN1234567"
POWER_CYCLE = f"chsysstate -m {SYSTEM} -r lpar -o shutdown --immed --restart -n lpar1"
#: The HMC has the host boot its default kernel, as a power cycle does. Options of ssh come before the host.
HMC = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do test "$1" = -o && shift; shift; done
echo "$@" >> {log}
case "$*" in
    *mkvterm*) echo "Oops: Kernel access of bad area"; exec sleep 60 ;;
    *chsysstate*) {refuses}rm -f {root}/down {root}/fault; exec {root}/bin/systemctl reboot ;;
esac
"""


@dataclass(frozen=True)
class Managed:
    """One host with its HMC."""

    fleet: Fleet
    log: Path

    def deploy(self) -> tuple[int, str]:
        kernel = self.fleet.first.packed("patched")
        return self.fleet.start("deploy", "--kernel", str(kernel))

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def managed(folder: Path, *, hangs: bool = True, refuses: bool = False, given: bool = True) -> Managed:
    made = fleet(folder, ["lpar1"])
    host = made.first
    host.put("proc/sys/kernel/arch", MACHINE)
    if hangs:
        host.put("fault", "hangs")
    stand_ins = folder / "stand-ins"
    stand_ins.mkdir()
    log = folder / "hmc.log"
    refusal = "echo 'HSCL3205 The managed system is not found.' >&2; exit 1; " if refuses else ""
    (stand_ins / "ssh").write_text(HMC.format(log=log, root=host.root, refuses=refusal))
    (stand_ins / "ssh").chmod(0o755)
    # The example's ssh is looked for on PATH; the fake host's own stands in for ssh to it.
    waits: dict[str, Any] = {"ab_boot_timeout": 4, "ab_answer_timeout": 1, "ab_reboot_delay": 0}
    host.variables |= waits | {"smt_console_seconds": 2}
    if given:
        ssh = EXAMPLE["hmc_ssh"].replace("ssh ", f"{stand_ins / 'ssh'} ", 1)
        host.variables |= {**EXAMPLE, "hmc_ssh": ssh, "hmc_host": "hmc1", "hmc_system": SYSTEM}
    return Managed(made, log)


def test_a_host_that_hangs_is_power_cycled_once_and_is_back(tmp_path: Path) -> None:
    made = managed(tmp_path)

    code, out = made.deploy()

    assert code == 5, out
    assert made.fleet.verdicts() == {"lpar1": "failed-restored"}
    console, power_cycle = made.asked()
    assert console == f"hscroot@hmc1 mkvterm -m {SYSTEM} -p lpar1"
    assert power_cycle == f"hscroot@hmc1 {POWER_CYCLE}"
    (kept,) = (tmp_path / "runs").glob("*/console/lpar1.log")
    assert kept.read_text() == "Oops: Kernel access of bad area\n"
    assert "was power-cycled, and is back on 6.12-default" in " ".join(out.split())
    assert made.fleet.first.get("proc/sys/kernel/osrelease") == DEFAULT_RELEASE
    assert not (made.fleet.first.staging / "lock.json").exists()


def left_on_a_kernel(made: Managed) -> None:
    """Have a run die on a kernel of its own, which then hangs."""
    record = {"release": DEFAULT_RELEASE, "boot_id": "b", "cmdline": DEFAULT_CMDLINE}
    record |= {"smt_level": "on", "online": "0-7", "present": "0-7"}
    host = made.fleet.first
    host.put("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER | {"default": record}))
    host.put("proc/sys/kernel/osrelease", "6.12-patched")
    host.put("proc/cmdline", f"{DEFAULT_CMDLINE} hotplug_acceleration.variant=patched")


def test_a_rollback_power_cycles_a_silent_host_once_and_brings_it_back(tmp_path: Path) -> None:
    made = managed(tmp_path, hangs=False)
    left_on_a_kernel(made)
    made.fleet.first.put("down", "")

    code, out = made.fleet.start("rollback", "-e", "ab_break_lock=t")

    assert code == 0, out
    assert made.fleet.verdicts() == {"lpar1": "ok"}
    assert [line.split()[1] for line in made.asked()] == ["mkvterm", "chsysstate"]
    (kept,) = (tmp_path / "runs").glob("*/console/lpar1.log")
    assert kept.read_text() == "Oops: Kernel access of bad area\n"
    assert made.fleet.first.get("proc/sys/kernel/osrelease") == DEFAULT_RELEASE
    assert not made.fleet.first.staging.exists()


def test_a_power_cycle_breaks_no_lock(tmp_path: Path) -> None:
    made = managed(tmp_path, hangs=False)
    left_on_a_kernel(made)
    made.fleet.first.put("down", "")

    code, out = made.fleet.start("rollback")

    assert code == 6, out
    assert "add -e ab_break_lock=t" in made.fleet.rows()["lpar1"]["message"]
    assert len(made.asked()) == 2
    assert (made.fleet.first.staging / "lock.json").exists()


@pytest.mark.parametrize(("given", "words"), [(True, ["--check"]), (False, [])])
def test_a_rollback_leaves_the_power_alone(tmp_path: Path, given: bool, words: list[str]) -> None:
    """In check mode, and without a command for it."""
    made = managed(tmp_path, hangs=False, given=given)
    left_on_a_kernel(made)
    made.fleet.first.put("down", "")

    result = made.fleet.first.play("rollback.yml", *words)

    assert result.code == 2, result.output
    assert made.asked() == []


def test_a_host_that_answers_is_not_power_cycled(tmp_path: Path) -> None:
    made = managed(tmp_path, hangs=False)
    made.fleet.first.put("fault", "load-refused")

    code, out = made.deploy()

    assert code == 5, out
    assert made.asked() == []


def test_an_hmc_that_fails_is_reported_in_one_line(tmp_path: Path) -> None:
    made = managed(tmp_path, refuses=True)

    code, out = made.deploy()

    assert code == 6, out
    row = made.fleet.rows()["lpar1"]
    assert row["verdict"] == "LEFT-CHANGED"
    assert "the power cycle failed: " in row["message"]
    assert "HSCL3205 The managed system is not found.; power-cycle the host by hand" in row["message"]
    assert os.linesep not in row["message"]
    assert len(made.asked()) == 2


def test_without_the_variable_it_is_as_before(tmp_path: Path) -> None:
    made = managed(tmp_path, given=False)

    code, out = made.deploy()

    assert code == 6, out
    assert "the host has not answered for 1 s; look at its console" in made.fleet.rows()["lpar1"]["message"]
    assert made.asked() == []
