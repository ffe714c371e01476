"""Host cores for the CPU of a guest that starts the next kernel, while the guest's other CPUs wait for it.

From kexec's jump until the new kernel takes them, the other CPUs of a POWER guest spin. With 16 emulated
CPUs on two host cores, the one that works has a seventh of a core. It calls the hypervisor again and again,
and the others keep QEMU's lock from it as long as they run. So all share one core, of which they get what it
leaves: its part of a jump takes 3 to 4 s instead of 10 to 20. It comes first until init starts. Each other
jump is made by another CPU than the one before, so the CPU that works is looked for.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hotplug_common.guest import qemu, qmp

JUMP = b"kexec: Starting switchover sequence"
#: From here on the next kernel has the emulator's CPUs meet now and then, for which each has to run.
STARTED = b"Linux version "
#: Init's first line: the new kernel has all its CPUs, and no program of the guest runs yet.
ARRIVED = b"Welcome to "
#: By QEMU's monitor: a CPU and the address of its next instruction.
ADDRESS = re.compile(r"CPU#(\d+)\s+NIP ([0-9a-f]+)")
#: CPUs wait for the next kernel in a loop below this address: its __secondary_hold, copied to 0x60.
WAITING_BELOW = 0x100
PREFERRED = -20
"""Niceness of the CPU that works."""
MONITOR_S = 10.0
"""How long the monitor may take: it waits for CPUs that spin."""


@dataclass(frozen=True)
class Thread:
    """A thread that runs a CPU, and what it may use; one that has ended is let alone."""

    pid: int
    cores: set[int]
    niceness: int

    @classmethod
    def of(cls, pid: int) -> Thread:
        """Ask what it may use now."""
        return cls(pid, os.sched_getaffinity(pid), os.getpriority(os.PRIO_PROCESS, pid))

    def move(self, cores: set[int]) -> None:
        """Have it run on these host cores."""
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(self.pid, cores)

    def favour(self) -> None:
        """Have it come before others; PermissionError where this user may not."""
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, self.pid, PREFERRED)

    def reset(self) -> None:
        """Have it run as before."""
        self.move(self.cores)
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, self.pid, self.niceness)


class Jumps:
    """Follows the console of a guest, whose other CPUs leave host cores to the one that works during jumps.

    Outside of jumps each CPU may run where it could before, so that switches are timed as without this.
    """

    def __init__(self, folder: Path) -> None:
        """Begin at the end of what the guest in FOLDER has printed."""
        self._folder = folder
        self._console = folder / qemu.CONSOLE_LOG
        self._read = self._console.stat().st_size
        self._rest = b""
        self._sought = False
        """Whether the CPU that works is to be found."""
        self._moved: list[Thread] = []
        """The threads of all CPUs as they were, until they are so again."""

    def look(self) -> None:
        """Read what the console has printed since the last look."""
        with self._console.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        self._read += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for mark in (mark for line in lines for mark in (JUMP, STARTED, ARRIVED) if mark in line):
            if mark == STARTED:
                for thread in self._moved:
                    thread.move(thread.cores)
            else:
                self.end()
            self._sought = mark == JUMP
        if self._sought:
            self._sought = not self._make_room()

    def _make_room(self) -> bool:
        """Prefer the CPU that works, if all but one wait, and return whether they do."""
        try:
            threads = {
                int(cpu["cpu-index"]): int(cpu["thread-id"])
                for cpu in qmp.execute(self._folder, "query-cpus-fast")
            }
            words = {"command-line": "info registers -a"}
            registers = qmp.execute(self._folder, "human-monitor-command", words, MONITOR_S)
        except qmp.QmpError:  # slower, not wrong
            return False
        waiting = {
            int(cpu) for cpu, address in ADDRESS.findall(registers) if int(address, 16) < WAITING_BELOW
        }
        if len(waiting) != len(threads) - 1:
            return False
        (working,) = threads.keys() - waiting
        with contextlib.suppress(ProcessLookupError):
            worker, *others = (Thread.of(threads[cpu]) for cpu in (working, *sorted(waiting)))
            if 1 < len(worker.cores) <= len(others):
                self._moved = [worker, *others]
                self._prefer(worker, others)
        return True

    @staticmethod
    def _prefer(worker: Thread, others: list[Thread]) -> None:
        try:
            worker.favour()
        except PermissionError:  # without a right to that, it gets a core that the others leave
            for thread in others:
                thread.move(thread.cores - {min(thread.cores)})
        else:
            for thread in (worker, *others):
                thread.move({max(worker.cores)})

    def end(self) -> None:
        """Give the CPUs back the host cores and the niceness that they had."""
        for thread in self._moved:
            thread.reset()
        self._moved = []


@contextlib.contextmanager
def followed(folder: Path) -> Iterator[Jumps]:
    """Follow the jumps of the guest in FOLDER, and leave its CPUs as they were on every way out."""
    jumps = Jumps(folder)
    try:
        yield jumps
    finally:
        jumps.end()
