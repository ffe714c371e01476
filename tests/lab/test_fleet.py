"""smt-fleet on a POWER guest: cores that come and go meanwhile, and a controller that is killed."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernel_qualify.lab import BIN
from tests.lab.labtools import Lab, wait_for, wait_while

# The stock kernel and the base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.hosts, pytest.mark.timeout(3600)]

GUEST = "member"
THREADS = 2
LOCK = "/var/lib/hotplug-acceleration/lock.json"
TOLD = "/root/ppc64_cpu.log"
#: ppc64_cpu that tells how it was called, and takes its time for a switch.
SLOW = f"""\
set -e
mv /usr/sbin/ppc64_cpu /usr/sbin/ppc64_cpu.real
cat > /usr/sbin/ppc64_cpu <<'END'
#!/bin/sh
case "$*" in --smt=*) echo "$*" >> {TOLD}; sleep 20 ;; esac
exec /usr/sbin/ppc64_cpu.real "$@"
END
chmod 755 /usr/sbin/ppc64_cpu
"""


@dataclass(frozen=True)
class Fleet:
    """A guest, and where the runs of smt-fleet on it are kept."""

    lab: Lab
    runs: Path

    def ask(self, command: str) -> str:
        return self.lab.must("ssh", GUEST, "--", command, timeout=300).strip()

    def online(self) -> str:
        return self.ask("cat /sys/devices/system/cpu/online")

    def locked(self) -> bool:
        return self.ask(f"test -e {LOCK} && echo locked || true") == "locked"

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start smt-fleet in a session of its own, so that all of it can be killed."""
        return subprocess.Popen(
            [BIN / "smt-fleet", *words, "--output-dir", self.runs],
            env={**self.lab.environment, "ANSIBLE_NOCOLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )

    def applies(self, level: str) -> subprocess.Popen[str]:
        inventory = str(self.lab.project / "inventory/lab.yml")
        return self.start("apply", "-i", inventory, "--limit", GUEST, "--level", level)

    def ends(self, command: subprocess.Popen[str], code: int = 0) -> dict[str, str]:
        """Wait for smt-fleet's end; return the guest's row of the newest run."""
        output, _ = command.communicate(timeout=1500)
        assert command.returncode == code, output[-6000:]
        newest = max(self.runs.iterdir(), key=lambda folder: folder.name)
        (row,) = json.loads((newest / "summary.json").read_text())["hosts"]
        return dict(row)


@pytest.fixture(scope="module")
def fleet(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    shape = ("--cores", "2", "--threads", str(THREADS), "--spare-cores", "2")
    lab.must("up", GUEST, *shape, timeout=2400)
    made = Fleet(lab, tmp_path_factory.mktemp("fleet") / "runs")
    made.ask(SLOW)
    yield made
    lab.must("down", GUEST)


def test_a_core_that_comes_during_a_switch_stays_online(fleet: Fleet) -> None:
    """QEMU gives each spare core once, so it is the one that goes in the next test."""
    command = fleet.applies("off")
    wait_while(command, lambda: fleet.ask(f"cat {TOLD} 2>/dev/null || true"), 600)
    fleet.lab.must("cores", "add", GUEST)

    row = fleet.ends(command)

    assert row["verdict"] == "ok"
    assert fleet.ends(fleet.start("rollback", "last"))["verdict"] == "ok"
    assert (fleet.online(), fleet.locked()) == ("0-5", False)


def test_a_core_that_goes_before_a_rollback_keeps_none_of_the_others(fleet: Fleet) -> None:
    assert fleet.ends(fleet.applies("off"))["verdict"] == "ok"
    fleet.lab.must("cores", "remove", GUEST)

    assert fleet.ends(fleet.start("rollback", "last"))["verdict"] == "ok"

    assert (fleet.online(), fleet.locked()) == ("0-3", False)


def test_a_killed_controllers_switch_is_joined_and_not_repeated(fleet: Fleet) -> None:
    before = fleet.ask(f"cat {TOLD}").splitlines()
    command = fleet.applies("off")
    try:
        wait_while(command, lambda: fleet.ask(f"cat {TOLD}").splitlines() != before, 600)
    finally:
        os.killpg(command.pid, signal.SIGKILL)
        command.wait()
    assert fleet.locked()

    row = fleet.ends(fleet.start("resume", "last"))

    assert row["verdict"] == "ok"
    assert (fleet.online(), fleet.locked()) == ("0,2", False)
    assert fleet.ask(f"cat {TOLD}").splitlines() == [*before, "--smt=off"]
    assert fleet.ends(fleet.start("rollback", "last"))["verdict"] == "ok"
    wait_for(lambda: fleet.online() == "0-3", 60)
