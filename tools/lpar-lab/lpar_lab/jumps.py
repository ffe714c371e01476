"""Host cores for the CPU of a guest that starts the next kernel, while the guest's other CPUs wait for it.

From kexec's jump until the new kernel takes them, the other CPUs of a POWER guest spin. With 16 emulated
CPUs on two host cores, the one that works has a seventh of a core, and a jump takes 10 to 20 s instead of 4
to 7. Each other jump is made by another CPU than the one before, so the CPU that works is looked for.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from hotplug_common.guest import qemu, qmp

JUMP = b"kexec: Starting switchover sequence"
#: Init's first line: the new kernel has all its CPUs, and no program of the guest runs yet.
ARRIVED = b"Welcome to "
#: By QEMU's monitor: a CPU and the address of its next instruction.
ADDRESS = re.compile(r"CPU#(\d+)\s+NIP ([0-9a-f]+)")
#: CPUs wait for the next kernel in a loop below this address: its __secondary_hold, copied to 0x60.
WAITING_BELOW = 0x100
MONITOR_S = 10.0
"""How long the monitor may take: it waits for CPUs that spin."""


class Jumps:
    """Follows the console of a guest, whose other CPUs leave one host core free during its jumps.

    Outside of jumps each CPU may run where it could before, so that switches are timed as without this.
    """

    def __init__(self, folder: Path) -> None:
        """Begin at the end of what the guest in FOLDER has printed."""
        self._folder = folder
        self._console = folder / qemu.CONSOLE_LOG
        self._read = self._console.stat().st_size
        self._rest = b""
        self._crowded = False
        self._before: dict[int, set[int]] = {}
        """Host cores that threads had, by thread, while they have fewer."""

    def look(self) -> None:
        """Read what the console has printed since the last look."""
        with self._console.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        self._read += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        events = [mark for line in lines for mark in (JUMP, ARRIVED) if mark in line]
        if events:
            self.end()
            self._crowded = events[-1] == JUMP
        if self._crowded:
            self._crowded = not self._make_room()

    def _make_room(self) -> bool:
        """Take one core from the CPUs that wait, if all but one wait, and return whether they do."""
        try:
            threads = {
                int(cpu["cpu-index"]): int(cpu["thread-id"])
                for cpu in qmp.execute(self._folder, "query-cpus-fast")
            }
            words = {"command-line": "info registers -a"}
            registers = qmp.execute(self._folder, "human-monitor-command", words, MONITOR_S)
        except qmp.QmpError:  # slower, not wrong
            return False
        waiting = [
            int(cpu) for cpu, address in ADDRESS.findall(registers) if int(address, 16) < WAITING_BELOW
        ]
        if len(waiting) != len(threads) - 1:
            return False
        for thread in (threads[cpu] for cpu in waiting):
            with contextlib.suppress(ProcessLookupError):
                cores = os.sched_getaffinity(thread)
                if len(cores) > 1 and len(waiting) >= len(cores):
                    os.sched_setaffinity(thread, cores - {min(cores)})
                    self._before[thread] = cores
        return True

    def end(self) -> None:
        """Give the CPUs back the host cores that they had."""
        for thread, cores in self._before.items():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cores)
        self._before = {}


@contextlib.contextmanager
def followed(folder: Path) -> Iterator[Jumps]:
    """Follow the jumps of the guest in FOLDER, and leave its CPUs as they were on every way out."""
    jumps = Jumps(folder)
    try:
        yield jumps
    finally:
        jumps.end()
