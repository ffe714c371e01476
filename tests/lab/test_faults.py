"""What goes wrong is told apart, told in one line, and leaves nothing behind."""

import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotplug_host.errors import ExitCode
from tests.lab.labtools import Lab, wait_while

# The kernel and the base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(2700)]

SHAPE = ("--cores", "2", "--threads", "2")
CRASH = "systemd.run=\"/bin/sh -c 'echo c >/proc/sysrq-trigger'\""


@pytest.fixture(autouse=True, scope="module")
def built(lab: Lab) -> None:
    for variant in ("stock", "patched"):
        lab.must("build-kernel", "--variant", variant, timeout=2400)
    lab.must("build-rootfs", timeout=1200)


@pytest.fixture(autouse=True)
def nothing_left(lab: Lab) -> Iterator[None]:
    yield
    lab.assert_empty()


def ended(command: subprocess.Popen[str], timeout: float) -> tuple[int, str]:
    """Wait for a command's end; return its exit code and the last line of its standard error."""
    _, stderr = command.communicate(timeout=timeout)
    return command.returncode, stderr.splitlines()[-1]


def test_busy_port_is_told_before_anything_is_built(lab: Lab) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = str(taken.getsockname()[1])
        done = lab.run("up", "busy", "--ssh-port", port, timeout=30)
    assert done.returncode == ExitCode.ENVIRONMENT
    assert done.stderr.count("\n") == 1
    assert f"port {port}" in done.stderr


def test_panic_is_told_with_the_end_of_the_console(lab: Lab) -> None:
    done = lab.run("up", "panics", *SHAPE, "--append", CRASH)
    assert done.returncode == ExitCode.GUEST
    *before, last = done.stderr.splitlines()
    assert last.startswith("lpar-lab: error: guest 'panics': panic")
    assert "sysrq triggered crash" in last
    console = [line for line in before if "console| " in line]
    assert len(console) == 30
    assert any("Kernel panic - not syncing: sysrq triggered crash" in line for line in console)
    kept = lab.folder / "state/lpar-lab/failed/panics.console.log"
    assert "sysrq triggered crash" in kept.read_text(errors="replace")


def test_qemu_that_dies_is_told_from_a_panic_and_from_a_timeout(lab: Lab) -> None:
    command = lab.start("up", "killed", *SHAPE)
    wait_while(command, lambda: lab.qemu("killed"), 60)
    lab.kill_qemu("killed")
    code, last = ended(command, 60)
    assert code == ExitCode.GUEST
    assert "QEMU ended early" in last


def test_ctrl_c_while_a_guest_starts_takes_it_along(lab: Lab) -> None:
    command = lab.start("up", "interrupted", *SHAPE)
    wait_while(command, lambda: lab.qemu("interrupted"), 60)
    command.send_signal(signal.SIGINT)
    code, last = ended(command, 60)
    assert code == ExitCode.INTERRUPTED
    assert last.startswith("lpar-lab: error: interrupted")
    assert lab.qemu("interrupted") is None


@pytest.mark.hosts
@pytest.mark.parametrize("ending", ["early exit", "panic"])
def test_guest_lost_while_it_is_measured(ending: str, lab: Lab, tmp_path: Path) -> None:
    """The demo must neither hang nor take a guest that came back after its panic for a good one."""
    log = tmp_path / "ansible.log"
    command = lab.start("demo", *SHAPE, "--iterations", "50", "--output-dir", str(tmp_path))
    wait_while(command, lambda: log.exists() and "TASK [smt : Follow the timing]" in log.read_text(), 900)
    if ending == "panic":
        lab.crash_kernel("demo")
    else:
        lab.kill_qemu("demo")
    code, last = ended(command, 900)
    assert code == ExitCode.GUEST
    wanted = {"panic": "Kernel panic - not syncing: sysrq", "early exit": "QEMU ended"}
    assert wanted[ending] in last


def test_time_runs_out_for_a_guest_that_never_answers(lab: Lab) -> None:
    done = lab.run("up", "silent", *SHAPE, "--append", "init=/bin/cat", "--timeout", "20", timeout=120)
    assert done.returncode == ExitCode.TIMEOUT
    assert "did not answer over SSH within 20 s" in done.stderr.splitlines()[-1]
