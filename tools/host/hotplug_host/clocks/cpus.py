"""Which CPUs to measure on."""

from __future__ import annotations

import os

from hotplug_host.cpulist import parse_cpulist
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.sysfs import Sysfs
from hotplug_host.topology import describe_cpus, read_online


def usable_cpus(fs: Sysfs, wanted: str | None) -> tuple[int, ...]:
    """Return the CPUs of the list WANTED, or all that are online and that this process may run on.

    ToolError (USAGE) when WANTED names others.
    """
    usable = read_online(fs)
    if fs.is_host:
        usable &= frozenset(os.sched_getaffinity(0))
    if wanted is None:
        return tuple(sorted(usable))
    try:
        asked = parse_cpulist(wanted)
    except ValueError as error:
        raise ToolError(f"--cpus {wanted}: {error}", "give a list such as 0-3,8", ExitCode.USAGE) from error
    if not asked:
        raise ToolError("--cpus names no CPU", "give a list such as 0-3,8", ExitCode.USAGE)
    if not asked <= usable:
        raise ToolError(
            f"--cpus {wanted}: {describe_cpus(asked - usable)} offline, or not for this process",
            f"usable are {describe_cpus(usable)}",
            ExitCode.USAGE,
        )
    return tuple(sorted(asked))


def default_threads(cpus: int) -> tuple[int, ...]:
    """Return 1, 2, 4, ... threads, and last as many as there are CPUs."""
    powers = [1 << bit for bit in range(cpus.bit_length()) if 1 << bit < cpus]
    return (*powers, cpus)
