"""Seeing which CPUs a run works on, at its beginning and when the machine changes under it."""

from __future__ import annotations

from dataclasses import replace

from hotplug_host.child import Watch
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.operation import SMT_OFF, SMT_ON, Machine
from hotplug_host.timing.switch import Driver
from hotplug_host.topology import read_online, read_topology


def place_by_switching(fs: Sysfs, driver: Driver, machine: Machine, watch: Watch) -> Machine:
    """Return the machine with every CPU placed in its core, which shows once SMT is on.

    Leaves SMT on; ToolError when that failed.
    """
    topology = machine.topology
    guess = replace(topology, threads_per_core=max(2, topology.threads_per_core))
    for operation in (SMT_OFF, SMT_ON):
        result = driver.perform(operation, replace(machine, topology=guess), watch)
        if result.error:
            raise ToolError(
                f"{operation.name} failed: {result.error}",
                "switch SMT on by hand and look at the kernel log",
                ExitCode.TIMEOUT if result.timed_out else ExitCode.OPERATION,
            )
    return replace(machine, topology=replace(read_topology(fs), online=topology.online))


def follow_change(fs: Sysfs, machine: Machine, change: str) -> Machine:
    """Return the machine as it is after CPUs came or went; ToolError when the run's own are concerned.

    What was added and is offline takes no part: the transitions are the same as before. With CPUs of its
    own gone, or others online beside them, a run would time another machine from there on.
    """
    topology, seen = machine.topology, read_topology(fs)
    added = read_online(fs) - topology.present
    if not machine.baseline <= seen.present or added:
        raise ToolError(
            change,
            "what was timed before that is kept; start a new run on the machine as it is now",
            ExitCode.OPERATION,
        )
    return replace(machine, topology=replace(topology, possible=seen.possible, present=seen.present))
