"""Which CPUs the host has, how they form cores, and which of them an SMT level keeps online."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hotplug_host.cpulist import format_cpulist, parse_cpulist
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.sysfs import CPU_DIR, SMT_CONTROL, Sysfs

STATES = f"{CPU_DIR}/hotplug/states"
STATE = re.compile(r"([0-9]{1,6}): ?(\S.*)", re.ASCII)
DEVICE_TREE_CPUS = ("/sys/firmware/devicetree/base/cpus", "/proc/device-tree/cpus")


@dataclass(frozen=True)
class Topology:
    """The host's CPUs. `cores` lists each core's present CPUs in thread order.

    `unplaced` are present CPUs whose core cannot be told while they are offline (not on POWER,
    where the device tree says it).
    """

    possible: frozenset[int]
    present: frozenset[int]
    online: frozenset[int]
    cores: tuple[tuple[int, ...], ...]
    threads_per_core: int
    unplaced: frozenset[int]

    def active_cores(self, online: frozenset[int]) -> tuple[tuple[int, ...], ...]:
        """Return the cores that have at least one CPU in ONLINE: the ones an SMT switch acts on."""
        return tuple(core for core in self.cores if not online.isdisjoint(core))

    def expected_online(self, threads: int, baseline: frozenset[int]) -> frozenset[int]:
        """Return the CPUs that THREADS per core leaves online.

        Cores wholly offline in BASELINE (the state before the run) stay offline.
        """
        return frozenset(cpu for core in self.active_cores(baseline) for cpu in core[:threads])


def read_topology(fs: Sysfs) -> Topology:
    """Read the topology; CPUs that are offline are placed by the device tree where there is one."""
    possible = _read_cpus(fs, "possible")
    present = _read_cpus(fs, "present")
    online = _read_cpus(fs, "online")
    threads = device_tree_threads(fs)
    if threads is not None:
        # POWER numbers a core's threads consecutively, whether or not they are online.
        cores = _group_consecutively(present, threads)
        return Topology(possible, present, online, cores, threads, frozenset())
    cores = _cores_from_siblings(fs, online)
    placed = frozenset(cpu for core in cores for cpu in core)
    threads = max((len(core) for core in cores), default=1)
    return Topology(possible, present, online, cores, threads, present - placed)


def read_online(fs: Sysfs) -> frozenset[int]:
    """Return the CPUs that are online now."""
    return _read_cpus(fs, "online")


def read_possible(fs: Sysfs) -> frozenset[int]:
    """Return the CPUs the kernel has room for."""
    return _read_cpus(fs, "possible")


def read_present(fs: Sysfs) -> frozenset[int]:
    """Return the CPUs there are now."""
    return _read_cpus(fs, "present")


def describe_change(topology: Topology, fs: Sysfs) -> str | None:
    """Return how the CPUs there are differ from TOPOLOGY's (DLPAR, CPU hot-add); None when they do not."""
    parts = []
    for which, before in (("possible", topology.possible), ("present", topology.present)):
        after = _read_cpus(fs, which)
        if after != before:
            parts.append(f"{which} CPUs were {format_cpulist(before)}, are {format_cpulist(after)}")
    return "the machine changed: " + " and ".join(parts) if parts else None


def device_tree_threads(fs: Sysfs) -> int | None:
    """Return threads per core from the device tree (4 bytes per thread); None where there is none."""
    for directory in DEVICE_TREE_CPUS:
        sizes = [
            path.stat().st_size
            for path in fs.glob(directory, "*/ibm,ppc-interrupt-server#s")
            if path.is_file()
        ]
        if sizes and max(sizes) >= 4:
            return max(sizes) // 4
    return None


def read_control(fs: Sysfs) -> str | None:
    """Return what smt/control says ("on", "off", a number, "forceoff", "notsupported", ...)."""
    return fs.read_optional(SMT_CONTROL)


def read_states(fs: Sysfs) -> dict[str, str] | None:
    """Return the names of the kernel's hotplug states by step; None where the kernel does not list them."""
    text = fs.read_optional(STATES)
    return None if text is None else parse_states(text)


def parse_states(text: str) -> dict[str, str]:
    """Return names by step from the text of the file that lists hotplug states, one a line: `STEP: NAME`."""
    return {found[1]: found[2] for line in text.splitlines() if (found := STATE.fullmatch(line.strip()))}


def control_label(threads: int, threads_per_core: int) -> str:
    """Return what smt/control says once THREADS per core are enabled."""
    if threads == 1:
        return "off"
    return "on" if threads == threads_per_core else str(threads)


def cpu_file(cpu: int) -> str:
    """Return the file that takes a CPU offline and online."""
    return f"{CPU_DIR}/cpu{cpu}/online"


def describe_difference(expected: frozenset[int], actual: frozenset[int]) -> str | None:
    """Return which CPUs are not as expected, by number; None when all are."""
    parts = []
    if expected - actual:
        parts.append(f"{describe_cpus(expected - actual)} offline but should be online")
    if actual - expected:
        parts.append(f"{describe_cpus(actual - expected)} online but should be offline")
    return " and ".join(parts) or None


def describe_cpus(cpus: frozenset[int]) -> str:
    """Return CPUs as a sentence has them: "CPU 3", "CPUs 3-5"."""
    return f"CPU{'s' if len(cpus) > 1 else ''} {format_cpulist(cpus)}"


def _read_cpus(fs: Sysfs, which: str) -> frozenset[int]:
    text = fs.read(f"{CPU_DIR}/{which}")
    try:
        return parse_cpulist(text)
    except ValueError as error:
        raise ToolError(
            f"{fs.path(CPU_DIR) / which}: {error}", "is this a sysfs tree?", ExitCode.ENVIRONMENT
        ) from error


def _group_consecutively(cpus: Iterable[int], threads: int) -> tuple[tuple[int, ...], ...]:
    cores: dict[int, list[int]] = {}
    for cpu in sorted(cpus):
        cores.setdefault(cpu // threads, []).append(cpu)
    return tuple(tuple(core) for core in cores.values())


def _cores_from_siblings(fs: Sysfs, online: frozenset[int]) -> tuple[tuple[int, ...], ...]:
    cores: set[tuple[int, ...]] = set()
    for cpu in online:
        text = fs.read_optional(f"{CPU_DIR}/cpu{cpu}/topology/thread_siblings_list")
        cores.add(tuple(sorted(parse_cpulist(text))) if text else (cpu,))
    return tuple(sorted(cores))
