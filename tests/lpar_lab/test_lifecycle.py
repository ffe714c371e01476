import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hotplug_common import arch, process
from hotplug_common.guest import deadlock, qemu, qmp, seed, ssh
from hotplug_common.guest.rootfs import RECORD, Disk
from hotplug_common.kernel.artifact import Artifact, SourceRef
from hotplug_common.paths import Paths
from hotplug_host import termination as signals
from hotplug_host.errors import ExitCode, ToolError
from lpar_lab import lifecycle, state
from lpar_lab.lifecycle import Ready, Request
from tests import FAKES
from tests.fakes.inchild import in_child

FAKE = FAKES / "fake_qemu.py"
RELEASE = "6.12.117-stock-1a2b3c4d"
KERNEL = Artifact(
    arch="ppc64le",
    line="6.12",
    variant="stock",
    release=RELEASE,
    image=Path("/cache/k/vmlinux"),
    sha256="0",
    config=Path("/cache/k/config"),
    source=SourceRef("linux-source-6.12", "6.12.117-1", "0"),
    patches=[],
    fragments=["base"],
    built="2026-01-01T00:00:00+00:00",
)
DISK = Disk("ppc64le", "trixie", "0", Path("/cache/disk.img"))
Play = Callable[[str, str], None]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Replace QEMU by a program that writes `console` and then lives on or ends."""

    def choose(console: str, ending: str) -> None:
        monkeypatch.setattr(lifecycle.preflight, "require", lambda *_: None)
        monkeypatch.setattr(lifecycle, "make_overlay", lambda *_: None)
        monkeypatch.setattr(lifecycle, "SETTLE_S", 0.0)
        monkeypatch.setattr(lifecycle, "POLL_S", 0.05)
        monkeypatch.setattr(
            qemu,
            "command",
            lambda machine: [sys.executable, str(FAKE), "-name", f"lpar-lab-{machine.name}", console, ending],
        )

    return choose


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """A base disk with a boot loader's files, and nothing else."""
    core = tmp_path / "base/boot/grub/powerpc-ieee1275/core.elf"
    core.parent.mkdir(parents=True)
    core.write_bytes(b"core")
    return Disk("ppc64le", "trixie", "0", tmp_path / "base/disk.img")


def answer(monkeypatch: pytest.MonkeyPatch, ready: Ready | None) -> None:
    monkeypatch.setattr(ssh, "banner", lambda *_: ready is not None)
    monkeypatch.setattr(lifecycle, "probe", lambda *_: ready)


def request(timeout: float = 20.0) -> Request:
    return Request("lab1", arch.PPC64LE, cores=2, threads=8, timeout=timeout)


def assert_nothing_left(paths: Paths) -> None:
    assert lifecycle.folders(paths) == []
    # Another worker's test has a guest of the same name, in a folder of its own.
    assert not [
        p
        for p in Path("/proc").iterdir()
        if p.name.isdigit()
        and str(FAKE) in process.command_line(int(p.name))
        and working_folder(p).startswith(str(paths.project.parent))
    ]


def working_folder(folder: Path) -> str:
    """Read where a process works, from its folder in /proc; empty once it has ended."""
    try:
        return str((folder / "cwd").readlink())
    except OSError:
        return ""


def test_up_status_down(play: Play, paths: Paths, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    play("booting", "stay")
    answer(monkeypatch, Ready("boot-1", RELEASE, 16))
    guest = lifecycle.up(request(), KERNEL, DISK, paths, said.append)
    folder = lifecycle.folder_of(paths, "lab1")
    assert state.is_running(guest)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / seed.CLIENT_KEY).stat().st_mode & 0o777 == 0o600
    assert "lab1:" in paths.inventory.read_text()
    with pytest.raises(ToolError, match="already running") as caught:
        lifecycle.up(request(), KERNEL, DISK, paths, said.append)
    assert caught.value.code is ExitCode.USAGE
    assert state.is_running(guest), "a refused second up leaves the first alone"
    assert lifecycle.down("lab1", paths, said.append)
    assert not lifecycle.down("lab1", paths, said.append), "down is idempotent"
    assert "lab1:" not in paths.inventory.read_text()
    assert_nothing_left(paths)


@pytest.mark.slow
def test_a_guest_with_a_boot_loader_gets_a_disk_for_it(
    play: Play, paths: Paths, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play("booting", "stay")
    answer(monkeypatch, Ready("boot-1", RELEASE, 16))
    (tmp_path / "vmlinux").write_bytes(b"kernel")
    (tmp_path / "config").write_text("")
    kernel = replace(KERNEL, image=tmp_path / "vmlinux", config=tmp_path / "config")
    machines = []
    command = qemu.command
    monkeypatch.setattr(qemu, "command", lambda machine: machines.append(machine) or command(machine))

    wanted = replace(request(), append="quiet", boot_loader=True)
    lifecycle.up(wanted, kernel, disk, paths, lambda _: None)

    folder = lifecycle.folder_of(paths, "lab1")
    assert [machine.boot_disk for machine in machines] == [True]
    assert (folder / qemu.BOOT).read_bytes()[510:512] == b"\x55\xaa"
    with tarfile.open(folder / qemu.SEED) as tar:
        defaults = tar.extractfile("etc/default/grub")
        assert defaults
        assert b"norandmaps systemd.mount-extra=LABEL=lpar-lab-boot:/boot:ext4 quiet" in defaults.read()
    lifecycle.down("lab1", paths, lambda _: None)
    assert_nothing_left(paths)


@pytest.mark.parametrize(
    ("console", "ending", "ready", "code", "words"),
    [
        (
            "Kernel panic - not syncing: Attempted to kill init!",
            "stay",
            None,
            ExitCode.GUEST,
            "panic on the way up",
        ),
        ("Oops: Kernel access of bad area, sig: 7 [#1]", "stay", None, ExitCode.GUEST, "oops on the way up"),
        (
            "booting",
            "exit",
            None,
            ExitCode.GUEST,
            "QEMU ended early: qemu-system-ppc64: could not allocate memory",
        ),
        ("booting", "stay", None, ExitCode.TIMEOUT, "did not answer over SSH within 1 s"),
        ("booting", "stay", Ready("b", "6.1.0", 16), ExitCode.GUEST, f"runs 6.1.0, not {RELEASE}"),
        ("booting", "stay", Ready("b", RELEASE, 15), ExitCode.GUEST, "has 15 of 16 CPUs online"),
    ],
    ids=["panic", "oops", "early exit", "timeout", "wrong kernel", "missing CPU"],
)
def test_outcomes_are_told_apart_and_leave_nothing(  # noqa: PLR0917 - fixtures
    play: Play,
    paths: Paths,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    console: str,
    ending: str,
    ready: Ready | None,
    code: ExitCode,
    words: str,
) -> None:
    play(f"first line\\n{console}", ending)
    answer(monkeypatch, ready)
    limit = 1.0 if code is ExitCode.TIMEOUT else 20.0
    with pytest.raises(ToolError, match=words.replace("(", r"\(")) as caught:
        lifecycle.up(request(limit), KERNEL, DISK, paths, said.append)
    assert caught.value.code is code
    assert_nothing_left(paths)
    if ready is None:
        assert console in (paths.failed_consoles / "lab1.console.log").read_text()
        assert any("console| " in line and console in line for line in said)


def test_a_guest_like_powervm_boots_the_kernel_on_its_disk(
    play: Play, paths: Paths, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    play("booting", "stay")
    installed = "6.12.107+deb13-powerpc64le"
    disk.image.with_name(RECORD).write_text(json.dumps({"kernel": installed}))
    answer(monkeypatch, Ready("boot-1", installed, 16))
    machines = []
    command = qemu.command
    monkeypatch.setattr(qemu, "command", lambda machine: machines.append(machine) or command(machine))
    guest = lifecycle.up(replace(request(), like=qemu.POWERVM), None, disk, paths, lambda _: None)
    assert (guest.release, guest.memory) == (installed, 3072)
    assert [machine.like for machine in machines] == [qemu.POWERVM]
    lifecycle.down("lab1", paths, lambda _: None)
    assert_nothing_left(paths)


def test_an_emulator_that_stands_still_is_no_hang_of_the_kernel(
    play: Play, paths: Paths, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play("booting", "stay")
    answer(monkeypatch, None)
    monkeypatch.setattr(deadlock, "SECONDS", 0.5)
    with pytest.raises(ToolError, match="the emulator's deadlock, and not the kernel's") as caught:
        lifecycle.up(request(), KERNEL, DISK, paths, said.append)
    assert caught.value.code is ExitCode.GUEST
    assert_nothing_left(paths)


def test_an_emulator_that_runs_is_waited_for(
    play: Play, paths: Paths, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play("booting", "run")
    answer(monkeypatch, None)
    monkeypatch.setattr(deadlock, "SECONDS", 0.5)
    with pytest.raises(ToolError, match="did not answer over SSH within 2 s"):
        lifecycle.up(request(2.0), KERNEL, DISK, paths, said.append)


@pytest.mark.parametrize(
    ("comms", "ran"),
    [
        (["qemu-system-ppc", "call_rcu", "IO mon_iothread", "CPU 0/TCG", "CPU 1/TCG"], 8 + 16),
        (["sleep", "sleep", "sleep"], 2 + 4),
    ],
    ids=["QEMU", "another program"],
)
def test_the_monitor_runs_while_the_cpus_stand_still(comms: list[str], ran: int, tmp_path: Path) -> None:
    for number, comm in enumerate(comms):
        thread = tmp_path / f"100/task/{100 + number}"
        thread.mkdir(parents=True)
        (thread / "comm").write_text(f"{comm}\n")
        (thread / "schedstat").write_text(f"{1 << number} 0 1\n")
    (tmp_path / "100/stat").write_text("100 (qemu-system-ppc) S 1 " + "0 " * 40)
    assert process.threads_time_ns(100, tmp_path) == ran


def test_a_stopped_process_is_none_that_stands_still() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert isinstance(process.threads_time_ns(child.pid), int)
            child.send_signal(signal.SIGSTOP)
            os.waitpid(child.pid, os.WUNTRACED)
            assert process.threads_time_ns(child.pid) is None
        finally:
            child.kill()
    assert process.threads_time_ns(child.pid) is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_waiting_leaves_nothing(
    play: Play, paths: Paths, said: list[str], monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    play("booting", "stay")
    answer(monkeypatch, None)

    def up() -> None:
        threading.Timer(1.0, os.kill, (os.getpid(), number)).start()
        with signals.installed(), pytest.raises((KeyboardInterrupt, signals.Terminated)):
            lifecycle.up(request(), KERNEL, DISK, paths, said.append)

    in_child(up)
    assert_nothing_left(paths)


def test_a_signal_during_cleaning_up_waits_for_its_end() -> None:
    def clean_up() -> bool:
        done = False
        with pytest.raises(KeyboardInterrupt), signals.held_back():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            done = True
        return done

    assert in_child(clean_up)


def test_the_folder_of_a_guest_that_died_is_reused(
    play: Play, paths: Paths, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play("booting", "stay")
    answer(monkeypatch, Ready("boot-1", RELEASE, 16))
    guest = lifecycle.up(request(), KERNEL, DISK, paths, said.append)
    os.kill(guest.pid, signal.SIGKILL)
    os.waitpid(guest.pid, 0)
    assert not state.is_running(guest)
    with pytest.raises(ToolError, match="not running"):
        lifecycle.require_running("lab1", paths)
    again = lifecycle.up(request(), KERNEL, DISK, paths, said.append)
    assert state.is_running(again)
    lifecycle.down("lab1", paths, said.append)
    assert_nothing_left(paths)


def test_a_busy_port_is_an_environment_fault() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ToolError, match=f"port {port} .* cannot be had") as caught:
            ssh.choose_port(port)
    assert caught.value.code is ExitCode.ENVIRONMENT
    assert ssh.choose_port(None) > 0


def test_a_connection_without_a_banner_is_not_ssh() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not ssh.banner(server.getsockname()[1], timeout=0.2)


def test_seed_holds_the_identity_and_pins_the_host_key(tmp_path: Path) -> None:
    seed.write(tmp_path, "lab1", 40022)
    assert (tmp_path / "seed.tar").stat().st_size % seed.SECTOR == 0
    with tarfile.open(tmp_path / "seed.tar") as tar:
        modes = {member.name: member.mode for member in tar if member.isfile()}
        assert {member.uid for member in tar} == {0}
        key = tar.extractfile("etc/ssh/ssh_host_ed25519_key.pub")
        assert key
        public = key.read().decode().split()[1]
    assert modes["etc/ssh/ssh_host_ed25519_key"] == 0o600
    assert modes["root/.ssh/authorized_keys"] == 0o600
    assert (tmp_path / "known_hosts").read_text() == f"[127.0.0.1]:40022 ssh-ed25519 {public}\n"


def test_probe_wants_three_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = process.Finished(0, "b-1\n6.12.1-stock-0\n16\n")
    monkeypatch.setattr(ssh, "run", lambda *_: said)
    assert lifecycle.probe(tmp_path, 1, 1.0) == Ready("b-1", "6.12.1-stock-0", 16)
    for bad in (process.Finished(255, ""), process.Finished(0, "b-1\n"), None):
        monkeypatch.setattr(ssh, "run", lambda *_, bad=bad: bad)
        assert lifecycle.probe(tmp_path, 1, 1.0) is None


def test_reset_wants_a_running_guest_whose_qemu_does_it(
    play: Play, paths: Paths, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ToolError, match="'lab1' is not running") as caught:
        lifecycle.reset("lab1", paths)
    assert caught.value.code is ExitCode.USAGE
    play("booting", "stay")
    answer(monkeypatch, Ready("boot-1", RELEASE, 16))
    lifecycle.up(request(), KERNEL, DISK, paths, said.append)
    # The fake has no monitor.
    with pytest.raises(ToolError, match="guest 'lab1': system_reset") as caught:
        lifecycle.reset("lab1", paths)
    assert caught.value.code is ExitCode.GUEST
    asked = []
    monkeypatch.setattr(qmp, "execute", lambda folder, command: asked.append((folder.name, command)))
    lifecycle.reset("lab1", paths)
    assert asked == [("lab1", "system_reset")]
    monkeypatch.undo()
    assert lifecycle.down("lab1", paths, said.append)
