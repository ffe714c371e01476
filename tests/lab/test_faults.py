"""What goes wrong on the way up is told apart, told in one line, and leaves nothing behind."""

import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest
from labtools import Lab, wait_for

from hotplug_timer.errors import ExitCode

# The kernel and the base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(2700)]

SHAPE = ("--cores", "2", "--threads", "2")
CRASH = "systemd.run=\"/bin/sh -c 'echo c >/proc/sysrq-trigger'\""


@pytest.fixture(autouse=True, scope="module")
def built(lab: Lab) -> None:
    lab.must("build-kernel", "--variant", "stock", timeout=2400)
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
    lab.kill_qemu("killed")
    code, last = ended(command, 60)
    assert code == ExitCode.GUEST
    assert "QEMU ended early" in last


def test_ctrl_c_while_a_guest_starts_takes_it_along(lab: Lab) -> None:
    command = lab.start("up", "interrupted", *SHAPE)
    wait_for(lambda: lab.qemu("interrupted"), 60)
    command.send_signal(signal.SIGINT)
    code, last = ended(command, 60)
    assert code == ExitCode.INTERRUPTED
    assert last.startswith("lpar-lab: error: interrupted")
    assert lab.qemu("interrupted") is None


def test_time_runs_out_for_a_guest_that_never_answers(lab: Lab) -> None:
    done = lab.run("up", "silent", *SHAPE, "--append", "init=/bin/cat", "--timeout", "20", timeout=120)
    assert done.returncode == ExitCode.TIMEOUT
    assert "did not answer over SSH within 20 s" in done.stderr.splitlines()[-1]
