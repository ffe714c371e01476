"""A guest from up to down. Whatever goes wrong on the way up, nothing is left running."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from hotplug_common import lock, process
from hotplug_common import needs as preflight
from hotplug_common.arch import Arch
from hotplug_common.guest import console, deadlock, grub, installed, qemu, qmp, seed, ssh
from hotplug_common.guest.console import Finding, Severity
from hotplug_common.guest.qemu import Machine
from hotplug_common.guest.rootfs import Disk, make_overlay
from hotplug_common.guest.seed import Member
from hotplug_common.kernel.artifact import Artifact
from hotplug_common.needs import Need
from hotplug_common.paths import Paths
from hotplug_common.ui import Say, once_every
from hotplug_host import termination as signals
from hotplug_host.errors import ExitCode, ToolError
from lpar_lab import inventory, state
from lpar_lab.state import State

POLL_S = 0.5
PROGRESS_S = 10.0
QUIT_GRACE_S = 5.0
COMMAND_TIMEOUT_S = 60.0
EXEC_S = 5.0
INSTALLED_S = 900.0
"""Firmware and boot loader read kernel and initial RAM disk, and more services start."""
SETTLE_S = 2.0
"""After a panic or oops shows, time for the rest of its lines to reach the log."""
QEMU_LOG = "qemu.log"
PROBE = "cat /proc/sys/kernel/random/boot_id; uname -r; getconf _NPROCESSORS_ONLN"


@dataclass(frozen=True)
class Request:
    """What `up` is asked for. Memory in MiB, timeout in seconds; None chooses a default."""

    name: str
    arch: Arch
    cores: int
    threads: int
    memory: int | None = None
    accel: str = "tcg"
    ssh_port: int | None = None
    timeout: float | None = None
    append: str = ""
    spare_cores: int = 0
    """Cores that can be added while the guest runs."""
    boot_loader: bool = False
    """GRUB on a boot disk of the guest's own, instead of a kernel that QEMU loads."""
    like: str = ""
    """What the guest is like, beside the lab's own; see qemu.Machine."""

    @property
    def cpus(self) -> int:
        """Logical CPUs with every thread online."""
        return self.cores * self.threads

    @property
    def most_cpus(self) -> int:
        """Logical CPUs with every thread of the spare cores, too."""
        return (self.cores + self.spare_cores) * self.threads

    def effective_timeout(self) -> float:
        """Seconds to wait for SSH: booting under emulation takes longer the more CPUs there are."""
        if self.timeout is not None:
            return self.timeout
        return 2.0 * self.cpus + (INSTALLED_S if self.like in qemu.INSTALLED else 240.0)

    def effective_memory(self) -> int:
        """MiB of memory: a distribution's kernel and its initial RAM disk need more."""
        least = installed.MEMORY if self.like in qemu.INSTALLED else 0
        return self.memory or max(least, qemu.default_memory(self.most_cpus))


@dataclass(frozen=True)
class Ready:
    """What a guest said of itself over SSH."""

    boot_id: str
    release: str
    cpus_online: int


class Outcome(Enum):
    """How waiting for a guest ended."""

    READY = "ready"
    PANIC = "panic"
    OOPS = "oops"
    EARLY_EXIT = "early exit"
    DEADLOCK = "deadlock"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class Waited:
    """The outcome of waiting, and what is known about it."""

    outcome: Outcome
    ready: Ready | None = None
    finding: Finding | None = None


def folder_of(paths: Paths, name: str) -> Path:
    """Return a guest's folder, whether it exists or not."""
    return paths.guests / state.check_name(name)


def check_request(request: Request, more: Iterable[Need] = ()) -> None:
    """Raise ToolError for a request that cannot be met, before anything is built for it.

    One message names every tool that is missing, of the guest's own and of `more`.
    """
    state.check_name(request.name)
    shape = (request.cores, request.threads)
    qemu.check(request.arch, *shape, request.accel, spare_cores=request.spare_cores, like=request.like)
    firmware = [Need(str(file), "ovmf") for file in qemu.UEFI if request.like == qemu.SERVER]
    boot_disk = preflight.file_system() if request.boot_loader else ()
    preflight.require(dict.fromkeys((*preflight.guest(request.arch), *firmware, *boot_disk, *more)))


def up(request: Request, kernel: Artifact | None, disk: Disk, paths: Paths, say: Say) -> State:
    """Start a guest and return once it runs commands over SSH with every CPU online.

    Without KERNEL the guest boots the one that is installed on the disk.

    Raises ToolError: USAGE (already running), ENVIRONMENT (busy port, missing tools), GUEST (panic,
    oops, early exit, an emulator that waits for itself, wrong kernel, missing CPUs), TIMEOUT. On any
    exception the guest is gone, and its console log is kept in paths.failed_consoles.
    """
    check_request(request)
    folder = folder_of(paths, request.name)
    with lock.held(paths.locks / f"guest-{request.name}.lock", say, f"guest '{request.name}'"):
        refuse_if_running(request.name, paths)
        shutil.rmtree(folder, ignore_errors=True)  # what a guest that died on its own left
        child, started = _start(request, kernel, disk, folder, say)
    try:
        waited = wait_ready(folder, started, request.effective_timeout(), lambda: child.poll() is None, say)
        ready = _judge(waited, request, started.release, folder, say=say)
    except BaseException:
        with signals.held_back():
            _keep_console(folder, paths, request.name, say)
            _end(folder, started)
            _reap(child)
        raise
    say(
        f"guest '{request.name}' is ready: {ready.release}, {ready.cpus_online} CPUs, "
        f"SSH on port {started.ssh_port}"
    )
    inventory.refresh(paths)
    return started


def refuse_if_running(name: str, paths: Paths) -> None:
    """Raise ToolError (USAGE) when a guest of that name is running."""
    previous = state.load(folder_of(paths, name))
    if previous and state.is_running(previous):
        raise ToolError(f"guest '{name}' is already running", f"lpar-lab down {name}", ExitCode.USAGE)


def _start(
    request: Request, kernel: Artifact | None, disk: Disk, folder: Path, say: Say
) -> tuple[subprocess.Popen[bytes], State]:
    port = ssh.choose_port(request.ssh_port)
    folder.mkdir(parents=True, mode=0o700)
    try:
        words = grub.words(request.append) if request.boot_loader else request.append
        command_line = qemu.kernel_command_line(request.arch, words)
        defaults = [Member(grub.DEFAULTS, grub.defaults(command_line), 0o644)] if request.boot_loader else []
        seed.write(folder, request.name, port, defaults)
        make_overlay(disk, folder)
        if request.like == qemu.SERVER:
            shutil.copyfile(qemu.UEFI[1], folder / qemu.UEFI[1].name)
        if request.boot_loader and kernel:
            grub.write(disk.boot, request.arch, kernel, command_line, folder / qemu.BOOT)
        machine = Machine(
            name=request.name,
            arch=request.arch,
            cores=request.cores,
            threads=request.threads,
            spare_cores=request.spare_cores,
            memory=request.effective_memory(),
            accel=request.accel,
            ssh_port=port,
            kernel=kernel.image if kernel else Path(),
            command_line=command_line,
            boot_disk=request.boot_loader,
            like=request.like,
        )
        release = kernel.release if kernel else disk.kernel
        say(f"starting guest '{request.name}': {request.arch.name}, {machine.cpus} CPUs, {release}")
        return _spawn(machine, release, kernel.file if kernel else disk.image, folder)
    except BaseException:
        with signals.held_back():
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _spawn(
    machine: Machine, release: str, kernel: Path, folder: Path
) -> tuple[subprocess.Popen[bytes], State]:
    """Start QEMU in its own session and write its state file; signals wait until both are done."""
    with signals.held_back(), (folder / QEMU_LOG).open("wb") as log:
        child = subprocess.Popen(
            qemu.command(machine),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        started = State(
            name=machine.name,
            arch=machine.arch.name,
            cores=machine.cores,
            threads=machine.threads,
            memory=machine.memory,
            accel=machine.accel,
            ssh_port=machine.ssh_port,
            release=release,
            kernel=str(kernel),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            pid=child.pid,
            start_ticks=process.start_ticks(child.pid) or 0,
        )
        state.save(folder, started)
        _await_exec(child, started)
    return child, started


def _await_exec(child: subprocess.Popen[bytes], started: State) -> None:
    """Wait the moment until the kernel shows QEMU's own command line, by which `down` will know it."""
    deadline = time.monotonic() + EXEC_S
    while child.poll() is None and not state.is_running(started) and time.monotonic() < deadline:
        time.sleep(0.005)


def wait_ready(folder: Path, guest: State, timeout: float, alive: Callable[[], bool], say: Say) -> Waited:
    """Wait for SSH to run a command, a panic or an oops, QEMU's end, or QEMU standing still."""
    port = guest.ssh_port
    standstill = deadlock.Standstill(guest.pid)
    rules = console.load_rules()
    log = folder / qemu.CONSOLE_LOG
    begin = time.monotonic()
    slow = once_every(PROGRESS_S, say)
    while True:
        verdict = console.classify_file(log, rules)
        if verdict.severity >= Severity.OOPS:
            time.sleep(SETTLE_S)
            final = console.classify_file(log, rules)
            panicked = final.severity is Severity.PANIC
            return Waited(Outcome.PANIC if panicked else Outcome.OOPS, finding=final.cause)
        if not alive():
            return Waited(Outcome.EARLY_EXIT)
        if standstill.found():
            return Waited(Outcome.DEADLOCK)
        left = begin + timeout - time.monotonic()
        if left <= 0:
            return Waited(Outcome.TIMEOUT)
        if ssh.banner(port, min(2.0, left)):
            ready = probe(folder, port, min(COMMAND_TIMEOUT_S, left))
            if ready:
                return Waited(Outcome.READY, ready)
        slow(lambda: f"waiting for SSH: {(console.last_lines(log, 1) or ['the console is silent'])[0][:100]}")
        time.sleep(POLL_S)


def probe(folder: Path, port: int, timeout: float) -> Ready | None:
    """Ask the guest for its boot id, release and online CPUs; None when it does not answer properly."""
    result = ssh.run(folder, port, PROBE, timeout)
    if result is None or result.returncode != 0:
        return None
    words = result.output.split()
    if len(words) != 3 or not words[2].isdecimal():
        return None
    return Ready(words[0], words[1], int(words[2]))


def _judge(waited: Waited, request: Request, release: str, folder: Path, *, say: Say) -> Ready:
    """Return what the guest said of itself, or raise the ToolError that fits; shows the console's end."""
    ready = waited.ready
    who = f"guest '{request.name}'"
    if ready and ready.release == release and ready.cpus_online == request.cpus:
        return ready
    if ready and ready.release != release:
        raise ToolError(f"{who} runs {ready.release}, not {release}", "build again", ExitCode.GUEST)
    for line in console.last_lines(folder / qemu.CONSOLE_LOG):
        say(f"console| {line}")
    if ready:
        raise ToolError(
            f"{who} has {ready.cpus_online} of {request.cpus} CPUs online", "see the console", ExitCode.GUEST
        )
    if waited.finding:
        raise ToolError(
            f"{who}: {waited.outcome.value} on the way up: {waited.finding.text.rstrip('.')}",
            "read the console",
            ExitCode.GUEST,
        )
    if waited.outcome is Outcome.EARLY_EXIT:
        raise ToolError(
            f"{who}: QEMU ended early: {last_words(folder)}",
            "check the options and the memory",
            ExitCode.GUEST,
        )
    if waited.outcome is Outcome.DEADLOCK:
        raise deadlock.DeadlockError(who)
    raise ToolError(
        f"{who} did not answer over SSH within {request.effective_timeout():g} s",
        "raise --timeout",
        ExitCode.TIMEOUT,
    )


def last_words(folder: Path) -> str:
    """Return the last line that a guest's QEMU wrote."""
    try:
        return process.last_line((folder / QEMU_LOG).read_text(errors="replace"))
    except OSError:
        return ""


def _keep_console(folder: Path, paths: Paths, name: str, say: Say) -> None:
    kept = paths.failed_consoles / f"{name}.console.log"
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / qemu.CONSOLE_LOG, kept)
        say(f"the whole console is kept in {kept}")


def _reap(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(QUIT_GRACE_S)


def _end(folder: Path, guest: State) -> None:
    """Make QEMU quit, by QMP, SIGTERM or SIGKILL, and remove the guest's folder."""
    if state.is_running(guest):
        with contextlib.suppress(qmp.QmpError):
            qmp.execute(folder, "quit")
            _wait_gone(guest, QUIT_GRACE_S)
        state.stop(guest)
    shutil.rmtree(folder, ignore_errors=True)


def _wait_gone(guest: State, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while state.is_running(guest) and time.monotonic() < deadline:
        time.sleep(0.05)


def down(name: str, paths: Paths, say: Say) -> bool:
    """End a guest and remove its folder; return whether there was one. Doing it twice is fine."""
    folder = folder_of(paths, name)
    with lock.held(paths.locks / f"guest-{name}.lock", say, f"guest '{name}'"):
        guest = state.load(folder)
        existed = folder.exists()
        with signals.held_back():
            if guest:
                _end(folder, guest)
            shutil.rmtree(folder, ignore_errors=True)
            inventory.refresh(paths)
    return existed


def running(paths: Paths) -> list[tuple[Path, State]]:
    """Return folder and state of every running guest, by name."""
    return [(folder, guest) for folder, guest in known(paths) if state.is_running(guest)]


def known(paths: Paths) -> list[tuple[Path, State]]:
    """Return folder and state of every guest that has a state file, by name."""
    return state.all_in(paths.guests)


def folders(paths: Paths) -> list[str]:
    """Return the names of all guests that left a folder, running or not."""
    return sorted(path.name for path in paths.guests.iterdir()) if paths.guests.is_dir() else []


def is_running(guest: State) -> bool:
    """Whether the guest's QEMU, the very process this tool started, runs."""
    return state.is_running(guest)


def require_running(name: str, paths: Paths) -> tuple[Path, State]:
    """Return folder and state of a running guest; ToolError (USAGE) when it is not running."""
    folder = folder_of(paths, name)
    guest = state.load(folder)
    if guest is None or not state.is_running(guest):
        names = ", ".join(found.name for _, found in running(paths)) or "none"
        raise ToolError(f"guest '{name}' is not running", f"running guests: {names}", ExitCode.USAGE)
    return folder, guest


def reset(name: str, paths: Paths) -> None:
    """Take a running guest's power away and give it back; returns at once.

    Raises ToolError: USAGE when the guest is not running, GUEST when QEMU does not do it.
    """
    folder, _ = require_running(name, paths)
    try:
        qmp.execute(folder, "system_reset")
    except qmp.QmpError as error:
        raise ToolError(f"guest '{name}': {error}", f"lpar-lab down {name}", ExitCode.GUEST) from error


def machine_status(folder: Path) -> str:
    """Ask QEMU for the machine's run state, such as `running`; `unknown` when it does not answer."""
    with contextlib.suppress(qmp.QmpError):
        return str(qmp.execute(folder, "query-status").get("status", "unknown"))
    return "unknown"
