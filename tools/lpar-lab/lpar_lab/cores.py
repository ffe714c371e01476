"""Cores of a running POWER guest: added and removed while it works, as DLPAR does on an LPAR."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hotplug_common import lock
from hotplug_common.arch import PPC64LE
from hotplug_common.guest import deadlock, qmp, slots, ssh
from hotplug_common.guest.slots import Slot
from hotplug_common.paths import Paths
from hotplug_common.ui import Say
from hotplug_host import termination as signals
from hotplug_host.cpulist import parse_cpulist
from hotplug_host.errors import ExitCode, ToolError
from lpar_lab import lifecycle, state
from lpar_lab.state import State

ADD = "add"
REMOVE = "remove"
ACTIONS = (ADD, REMOVE)
TIMEOUT_S = 120.0
ASK_S = 15.0
POLL_S = 0.2
CPUS = "/sys/devices/system/cpu"
ASK = f"cd {CPUS} && f=cpu$(cut -d- -f1 online | cut -d, -f1)/online && cat $f > $f && cat present online"
"""Write to one CPU what it has already: the kernel answers once it has no core in its hands."""


@dataclass(frozen=True)
class Cpus:
    """CPU lists of a guest."""

    present: str
    online: str


def change(action: str, name: str, timeout: float, paths: Paths, say: Say) -> Cpus:
    """Add a core to a running guest, or remove its last one; return its CPUs when its kernel is done.

    Raises ToolError: USAGE for a guest that is not running, is no POWER guest, or has no core to spare;
    GUEST when QEMU refuses or waits for itself, TIMEOUT when the guest's kernel does not follow.
    """
    state.check_name(name)
    with lock.held(paths.locks / f"guest-{name}.lock", say, f"guest '{name}'"):
        folder, guest = lifecycle.require_running(name, paths)
        if guest.arch != PPC64LE.name:
            raise ToolError(
                f"guest '{name}' is {guest.arch}: its CPUs stay",
                f"only {PPC64LE.name} has cores that come and go",
                ExitCode.USAGE,
            )
        places = _places(folder, guest)
        taken = [slot for slot in places if slot.device]
        wanted = len(taken) + (1 if action == ADD else -1)
        if action == ADD:
            _add(folder, guest, places)
        else:
            _remove(folder, guest, taken)
        return _followed(folder, guest, wanted, timeout, action)


def cpus_now(folder: Path, guest: State) -> int:
    """Return how many CPUs a running guest has, online or not; those at its start when QEMU is silent."""
    try:
        places = slots.read(folder)
    except qmp.QmpError:
        return guest.cpus
    return sum(slot.cpus for slot in places if slot.device)


def _add(folder: Path, guest: State, places: list[Slot]) -> None:
    free = [slot for slot in places if not slot.device]
    spare = len(places) - guest.cores
    # QEMU 10.0 keeps what it emulated a removed core with, and aborts when it runs out of that.
    used_up = guest.accel == "tcg" and guest.added >= spare
    if used_up or not free:
        raise ToolError(
            f"guest '{guest.name}' has had its {spare} spare cores",
            "`lpar-lab up --spare-cores N` starts one to which N cores can be added",
            ExitCode.USAGE,
        )
    with signals.held_back():
        with _obeyed(folder, guest):
            slots.fill(folder, free[0])
        state.save(folder, replace(guest, added=guest.added + 1))


def _remove(folder: Path, guest: State, taken: list[Slot]) -> None:
    if len(taken) == 1:
        raise ToolError(f"guest '{guest.name}' has one core", "add one first", ExitCode.USAGE)
    with _obeyed(folder, guest):
        slots.clear(folder, taken[-1])


def _places(folder: Path, guest: State) -> list[Slot]:
    with _obeyed(folder, guest):
        return slots.read(folder)


@contextmanager
def _obeyed(folder: Path, guest: State) -> Iterator[None]:
    """Raise ToolError (GUEST) in place of a QmpError, with why QEMU ended when it did."""
    try:
        yield
    except qmp.QmpError as error:
        if lifecycle.is_running(guest):
            step = f"lpar-lab console {guest.name}"
            raise ToolError(f"guest '{guest.name}': {error}", step, ExitCode.GUEST) from error
        raise ToolError(
            f"guest '{guest.name}': QEMU ended: {lifecycle.last_words(folder)}",
            f"lpar-lab down {guest.name}",
            ExitCode.GUEST,
        ) from error


def _followed(folder: Path, guest: State, wanted: int, timeout: float, action: str) -> Cpus:
    """Wait until QEMU and the guest's kernel have the wanted cores."""
    deadline = time.monotonic() + timeout
    standstill = deadlock.Standstill(guest.pid)
    while True:
        # In QEMU 10.0, the vCPU that removes a CPU waits for its thread. That thread may wait for work
        # that QEMU does alone, such as a flush of all TLBs, which waits for all vCPUs. A command in the guest
        # gives it such work, so it comes when QEMU is done.
        cpus = _ask(folder, guest) if _taken(folder, guest) == wanted else None
        if cpus and len(parse_cpulist(cpus.present)) == wanted * guest.threads:
            return cpus
        if standstill.found():
            raise deadlock.DeadlockError(f"guest '{guest.name}'")
        if time.monotonic() > deadline:
            raise ToolError(
                f"guest '{guest.name}' did not {action} the core within {timeout:g} s",
                f"see `lpar-lab console {guest.name}`; it may still do it",
                ExitCode.TIMEOUT,
            )
        time.sleep(POLL_S)


def _taken(folder: Path, guest: State) -> int:
    return sum(1 for slot in _places(folder, guest) if slot.device)


def _ask(folder: Path, guest: State) -> Cpus | None:
    result = ssh.run(folder, guest.ssh_port, ASK, ASK_S)
    if result is None or result.returncode != 0:
        return None
    words = result.output.split()
    return Cpus(*words) if len(words) == 2 else None
