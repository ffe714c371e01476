"""What goes wrong on a host while a playbook is at work there: the host ends as it began.

More are in test_deploy.py: a kernel that panics, an image that is not the one that was built, two runs.
"""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen, TimeoutExpired

import pytest

from tests.lab.labtools import Lab, wait_for, wait_while

# Both kernels and the base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.hosts, pytest.mark.timeout(3600)]

GUEST = "faulty"
LEAST_BOOT_TIMEOUT_S = 90
BOOTS = 3
"""So many of them a playbook waits for one: guests share the machine with others."""
PATIENCE_S = 900.0
"""For what comes by itself, if it comes."""
ASK = (
    "uname -r; cd /sys; cat devices/system/cpu/online devices/system/cpu/smt/control kernel/rcu_expedited"
    " kernel/rcu_normal kernel/kexec_loaded kernel/tracing/current_tracer; ls kernel/tracing/instances;"
    " find /var/lib/hotplug-acceleration /boot/hotplug-acceleration /etc/systemd/system"
    " -name '*hotplug-acceleration*'"
    " -o -path '*/hotplug-acceleration/*' 2>/dev/null | sort; true"
)
#: Cuts every connection when the first CPU goes offline; a service, as it has to outlive its own.
CUT = (
    "systemd-run --quiet --collect --unit=cut --working-directory=/sys/devices/system/cpu"
    " sh -c 'all=$(cat online);"
    ' while [ "$(cat online)" = "$all" ]; do :; done; pkill -KILL -f "^sshd-session"\''
)


@dataclass(frozen=True)
class Host:
    """A guest that is asked what it is like."""

    lab: Lab
    artifact: str
    boot_timeout: int

    def looks(self) -> list[str]:
        return self.lab.must("ssh", GUEST, "--", ASK, timeout=300).split()

    def release(self) -> str:
        """The kernel that runs; empty while none answers."""
        return self.lab.answer(GUEST, "uname -r", 60)

    def deployed(self) -> str:
        """The release of the kernel that is deployed."""
        release: str = json.loads(Path(self.artifact).read_text())["release"]
        return release

    def console(self) -> str:
        return (self.lab.guests / GUEST / "console.log").read_text(errors="replace")

    def deploys(self, **variables: object) -> Popen[str]:
        wanted = {"deploy_artifact": self.artifact, "ab_boot_timeout": self.boot_timeout}
        return self.lab.start_play("deploy.yml", GUEST, wanted | variables)

    def rolls_back(self, **variables: object) -> None:
        done = self.lab.play("rollback.yml", GUEST, variables)
        assert done.returncode == 0, done.stdout[-4000:]


@pytest.fixture(scope="module")
def host(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    built = lab.must("build-kernel", "--variant", "patched", "--print-artifact", timeout=2400).strip()
    folder = tmp_path_factory.mktemp("kernels") / "patched"
    lab.must("package", built, "--output-dir", folder)
    lab.must("up", GUEST, "--cores", "2", "--threads", "4", timeout=2400)
    host = Host(lab, str(folder / "artifact.json"), LEAST_BOOT_TIMEOUT_S)
    (stock, began) = (host.release(), time.monotonic())
    lab.must("reset", GUEST)
    wait_for(lambda: host.release() == stock, PATIENCE_S)
    boot = time.monotonic() - began
    yield replace(host, boot_timeout=max(LEAST_BOOT_TIMEOUT_S, round(BOOTS * boot)))
    lab.must("down", GUEST)


def ended(command: Popen[str], code: int = 2) -> str:
    """Wait for a playbook's end; return what it said without YAML's folding."""
    output, errors = command.communicate(timeout=1500)
    said = " ".join((output + errors).split())
    assert command.returncode == code, said[-6000:]
    return said


def await_task(command: Popen[str], name: str) -> None:
    """Read what a playbook says until it begins a task; nothing of it is lost that a failure needs."""
    assert command.stdout
    seen = []
    for line in command.stdout:
        seen.append(line)
        if line.startswith("TASK [") and name in line:
            return
    raise AssertionError(f"never came to '{name}':\n{''.join(seen)[-4000:]}")


def press_ctrl_c(command: Popen[str]) -> None:
    """Once more if it is still there: a worker that dies holding a lock keeps ansible-playbook from ending.

    That was seen once, with its main process in sem_wait() for half an hour.
    """
    for _ in range(2):
        command.send_signal(signal.SIGINT)
        with suppress(TimeoutExpired):
            command.communicate(timeout=60)
            break
    assert command.returncode not in (0, None)


def test_power_that_fails_in_the_middle_of_a_kexec(host: Host) -> None:
    before = host.looks()
    jumps = host.console().count("Starting new kernel")
    command = host.deploys()
    wait_while(command, lambda: host.console().count("Starting new kernel") > jumps, 600)
    host.lab.must("reset", GUEST)

    said = ended(command)

    assert "came back with another kernel: wanted 6.12" in said
    assert f"The host is back on {before[0]} with SMT as it was" in said
    assert host.looks() == before


def test_a_kernel_without_a_network_gives_the_host_back_by_itself(host: Host) -> None:
    before = host.looks()

    said = ended(host.deploys(deploy_append="initcall_blacklist=virtio_net_driver_init"))

    assert f"did not come back within {host.boot_timeout} s" in said
    assert f"The host is back on {before[0]} with SMT as it was" in said
    assert f"hotplug-acceleration: {host.deployed()} was not confirmed" in host.console()
    assert host.looks() == before


def test_ctrl_c_while_a_kernel_boots(host: Host) -> None:
    """The controller is gone, and the kernel that is not confirmed gives the host back."""
    before = host.looks()
    left = f"{host.deployed()} was not confirmed"
    earlier = host.console().count(left)
    command = host.deploys()
    await_task(command, "Wait for another boot, and prove")
    press_ctrl_c(command)
    wait_for(lambda: host.console().count(left) > earlier, PATIENCE_S)
    wait_for(lambda: host.release() == before[0], PATIENCE_S)

    again = ended(host.deploys())
    assert "has been using this host since" in again
    host.rolls_back(ab_break_lock=True)

    assert host.looks() == before


def test_ctrl_c_while_a_switch_is_timed(host: Host) -> None:
    before = host.looks()
    results = host.lab.folder / "interrupted"
    timing = {"ab_iterations": 20, "ab_settle": 0, "ab_results_dir": str(results)}
    command = host.lab.start_play("time.yml", GUEST, timing)
    await_task(command, "Follow the timing")
    press_ctrl_c(command)

    host.rolls_back(ab_break_lock=True, ab_results_dir=str(results))

    assert host.looks() == before
    assert list((results / "raw" / GUEST).iterdir()), "what was timed is kept"


def test_connections_cut_while_a_switch_is_timed(host: Host) -> None:
    before = host.looks()
    results = host.lab.folder / "cut"
    host.lab.must("ssh", GUEST, "--", CUT)

    done = host.lab.play(
        "time.yml", GUEST, {"ab_iterations": 3, "ab_settle": 0, "ab_results_dir": str(results)}
    )

    assert done.returncode == 0, done.stdout[-4000:]
    (file,) = (results / "raw" / GUEST).iterdir()
    records = [json.loads(line) for line in file.read_text().splitlines()]
    timed = [record["status"] for record in records if record.get("phase") == "timed"]
    assert timed == ["ok"] * 6
    assert host.looks() == before


def test_a_connection_cut_in_the_middle_of_a_switch(host: Host) -> None:
    """The switch goes on without us, and we with it when the host answers; a rollback undoes it."""
    before = host.looks()
    host.lab.must("ssh", GUEST, "--", CUT)

    done = host.lab.play("apply.yml", GUEST, {"smt_switch_level": "off", "smt_switch_poll": 5})

    assert done.returncode == 0, done.stdout[-4000:]
    assert "smt=off: 2 of 8 CPUs online after" in " ".join(done.stdout.split())
    assert host.looks()[1:4] == ["0,4", "off", "0"]
    host.rolls_back()
    assert host.looks() == before
