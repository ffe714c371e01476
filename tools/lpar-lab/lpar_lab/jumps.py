"""Host cores for the CPU of a guest that starts the next kernel, while the guest's other CPUs wait for it.

From kexec's jump until the new kernel takes them, the other CPUs of a POWER guest spin. With 16 emulated
CPUs on two host cores, the one that works has a seventh of a core, and a jump takes 18 s instead of 6 to 8.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from hotplug_common.guest import qemu, qmp

JUMP = b"kexec: Starting switchover sequence"
#: Init's first line: the new kernel has all its CPUs, and no program of the guest runs yet.
ARRIVED = b"Welcome to "
BOOT_CPU = 0


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
        if events and events[-1] == JUMP:
            self._make_room()
        elif events:
            self.end()

    def _make_room(self) -> None:
        if self._before:
            return
        try:
            threads = {
                int(cpu["cpu-index"]): int(cpu["thread-id"])
                for cpu in qmp.execute(self._folder, "query-cpus-fast")
            }
        except qmp.QmpError:  # slower, not wrong
            return
        threads.pop(BOOT_CPU, None)
        for thread in threads.values():
            with contextlib.suppress(ProcessLookupError):
                cores = os.sched_getaffinity(thread)
                if len(cores) > 1 and len(threads) >= len(cores):
                    os.sched_setaffinity(thread, cores - {min(cores)})
                    self._before[thread] = cores

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
