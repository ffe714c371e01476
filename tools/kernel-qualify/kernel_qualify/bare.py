"""A guest that runs one script instead of an init system, on its console.

With hundreds of CPUs on a few of the host's, systemd and SSH take longer than the switches, and the switches
wait for them: each time a CPU goes idle, the emulator stops all others.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import arch
from hotplug_common.guest import qemu, rootfs, seed, sockets, ssh
from hotplug_common.kernel.artifact import Artifact
from hotplug_common.paths import Paths
from hotplug_host.errors import ToolError
from kernel_qualify.guest import programs

ARCHIVE = "qualify.pyz"
FOLDER = str(programs.FOLDER)
"""Where the guest finds its files."""
ENDED = "the script ended with "
KEYS_EVERY_S = 3.0
"""A key that comes before the guest sleeps is lost."""
PER_CPU_MB = 10
"""Half of it is for tracing: its buffers, and a profile of all functions on each CPU. With half as much, a
guest of 512 CPUs had no memory left when it counted."""
SETUP = (
    "export PATH=/usr/sbin:/usr/bin",
    "mount -t proc proc /proc",
    "mount -t sysfs sysfs /sys",
    "mount -t tmpfs tmpfs /run",
    f"tar -C {FOLDER} -xf /dev/vdb",
    "echo",  # the kernel's last line on the console has no end
)


def command_line(architecture: arch.Arch, script: Sequence[str], extra: str) -> str:
    """Return a kernel command line whose init runs `script` (name and options) and prints how it ended."""
    steps = [
        *SETUP,
        f"python3 {FOLDER}/{ARCHIVE} {shlex.join(script)}",
        f"echo {ENDED}$?",
        "exec sleep infinity",
    ]
    return f'{qemu.kernel_command_line(architecture, extra)} init=/bin/sh -- -c "{"; ".join(steps)}"'


def memory(cpus: int, extra: int = 0) -> int:
    """Return the MiB for `cpus` CPUs and one process, and `extra` beside."""
    return -(-(1024 + PER_CPU_MB * cpus + extra) // qemu.MEMORY_STEP) * qemu.MEMORY_STEP


@dataclass(frozen=True)
class Guest:
    """The emulator, and a process that writes what the guest's console gets, and ends with the emulator.

    `folder` has the emulator's sockets.
    """

    emulator: subprocess.Popen[bytes]
    output: subprocess.Popen[str]
    folder: Path

    def aborted(self) -> bool:
        """Whether the emulator gave up by itself, as it may at boot with several vCPUs."""
        return self.emulator.poll() == -signal.SIGABRT

    @contextmanager
    def keys_pressed(self) -> Iterator[None]:
        """Press a key on its console every few seconds meanwhile, as long as there is an emulator."""
        enough = threading.Event()

        def press() -> None:
            with suppress(OSError), sockets.connected(self.folder, qemu.CONSOLE_SOCKET, KEYS_EVERY_S) as link:
                while not enough.is_set():
                    link.sendall(b"\n")
                    # The guest stops writing to its console after some 280 characters that are not read.
                    with suppress(TimeoutError):
                        while not enough.is_set() and link.recv(4096):
                            pass

        presser = threading.Thread(target=press)
        presser.start()
        try:
            yield
        finally:
            enough.set()
            presser.join()


@contextmanager
def machine(
    folder: Path,
    kernel: Artifact,
    shape: tuple[int, int],
    script: Sequence[str],
    *,
    files: Mapping[str, bytes],
    extra: str,
    extra_mb: int = 0,
    one_thread: bool = False,
    icount: bool = False,
    plugin: str = "",
    like: str = "",
    spare_cores: int = 0,
) -> Iterator[Guest]:
    """Boot `kernel` in a folder of its own below `folder`.

    `shape` is cores and threads of each. `script` is what to run: name and options. `files` are what
    the guest gets, by their names in FOLDER: ARCHIVE, and what the script reads. `extra` is for the
    kernel command line. `extra_mb` is memory beside what such a guest needs (MiB). With `one_thread`, the
    guest's CPUs take turns on one thread of the emulator; with `icount`, its clocks count instructions as
    well; `plugin` is one of the emulator's, `like` what the guest is like, and `spare_cores` are those that
    can be added (see qemu.Machine for all three).
    The guest ends with this context. Raises ToolError (ENVIRONMENT) without a base disk.
    """
    architecture = arch.by_name(kernel.arch)
    cores, threads = shape
    work = Path(tempfile.mkdtemp(prefix="bare-", dir=folder))
    disk = rootfs.find(architecture, Paths.from_environment())
    if disk is None:
        raise ToolError(
            f"no base disk for {architecture.name}", f"lpar-lab build-rootfs --arch {architecture.name}"
        )
    rootfs.make_overlay(disk, work)
    (work / qemu.SEED).write_bytes(
        seed.pack([seed.Member(name, content, 0o644) for name, content in files.items()])
    )
    guest = qemu.Machine(
        name="bare",
        arch=architecture,
        cores=cores,
        threads=threads,
        memory=memory((cores + spare_cores) * threads, extra_mb),
        accel="tcg",
        ssh_port=ssh.choose_port(None),
        kernel=kernel.image,
        command_line=command_line(architecture, script, extra),
        one_thread=one_thread,
        icount=icount,
        plugin=plugin,
        like=like,
        spare_cores=spare_cores,
    )
    console = work / qemu.CONSOLE_LOG
    console.touch()
    # Whatever ends this program ends the guest.
    words = ["setpriv", "--pdeathsig", "KILL", *qemu.command(guest)]
    with (
        subprocess.Popen(words, cwd=work, stdin=subprocess.DEVNULL) as emulator,
        subprocess.Popen(
            ["tail", "--lines=+1", "--follow", f"--pid={emulator.pid}", console],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as output,
    ):
        # An emulator that ended and was not waited for seems to run for ever.
        threading.Thread(target=emulator.wait, daemon=True).start()
        try:
            yield Guest(emulator, output, work)
        finally:
            emulator.kill()
            output.kill()
