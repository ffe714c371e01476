"""A host that does not come back from a boot: the operator's power cycle, by a stand-in for ssh to an HMC."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ansible.test_smt_fleet import Fleet, fleet
from tests.fakes.fake_lpar import DEFAULT_RELEASE, MACHINE, REPO

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
