"""The `measure-costs` command: what the parts of a switch cost on this machine, from a few of its CPUs.

What a grace period, a rendezvous or a rebuild of the scheduler domains costs depends on the CPUs that are
online, and hardly on how many of them are switched. So a few CPUs of the whole machine show it in minutes
where all of them would take hours. `hotplug-timer predict` makes a prediction of it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from hotplug_host.cpulist import format_cpulist
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.guardian import RCU
from hotplug_host.held import Held, holding
from hotplug_host.keeper import kept
from hotplug_host.operations import CPUS, name_of
from hotplug_host.preflight.judge import TIME, Plan
from hotplug_host.preflight.lpar import LPARCFG, lpar_mode
from hotplug_host.preflight.preflight import PreflightSettings, preflight
from hotplug_host.restore import read_affinities, save_state
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.counters import require_durations
from hotplug_host.timing.cycle import parse_operations
from hotplug_host.timing.expedite import plan_settings
from hotplug_host.timing.plan import Settings
from hotplug_host.timing.runner import Runner
from hotplug_host.timing.share import Sharing, busy_slowdown
from hotplug_host.timing.switch import require_root
from hotplug_host.timing.tracing import STATES
from hotplug_host.topology import Topology, read_topology

#: CPUs that are switched.
SWITCHED = 8
VIA = "cpu-online"


@dataclass(frozen=True)
class Rounds:
    """How many iterations of each phase a run has."""

    timed: int
    counted: int
    traced: int = 0


#: Rounds differ by how long a grace period happened to take, so the parts and the whole are of several.
PLAIN = Rounds(timed=3, counted=2)
#: Callbacks are traced where they hardly wait for grace periods, which would hide what they do themselves.
EXPEDITED = Rounds(timed=3, counted=1, traced=2)


@dataclass(frozen=True)
class CostSettings:
    """What the user asked for. `cpus` None: the last of those that smt=off takes; times are in seconds."""

    cpus: frozenset[int] | None
    variant: str
    settle_s: float
    timeout_s: float
    boot_method: str
    emulated: bool
    output: Path


def measure_costs(settings: CostSettings, fs: Sysfs, stop: StopRequest) -> None:
    """Look at the host, switch, and put everything back; ToolError on every way but success.

    The result file has two runs: one of the machine as it is, one with grace periods expedited.
    """
    require_root(fs)
    preflight(PreflightSettings(Plan(purpose=TIME)), fs, sys.stderr)
    expedited = plan_settings(fs, tune_fqs=False).settings
    require_durations(fs)
    topology, saved = read_topology(fs), save_state(fs)
    cpus = settings.cpus or last_secondary(topology)
    if fs.is_host:
        _stay_off(cpus)
    with kept(fs, saved, read_affinities(fs), settings.timeout_s):
        slowdown = busy_slowdown(topology.online) if fs.is_host else 1.0
        shared = Sharing(slowdown, lpar_mode(fs.read_optional(LPARCFG) or ""))
        Runner(_plan(settings, cpus, PLAIN, shared), fs, stop).execute()
        held = Held()
        with holding(fs, expedited, RCU, len(cpus) * settings.timeout_s, held):
            Runner(_plan(settings, cpus, EXPEDITED, shared, again=True), fs, stop).execute()
    if held.problems or held.early:
        raise ToolError(
            "; ".join([*held.problems, *filter(None, [held.early])]),
            "look who writes there, and measure again into another --output",
            ExitCode.OPERATION,
        )


def last_secondary(topology: Topology) -> frozenset[int]:
    """Return the last CPUs of those that smt=off takes; without SMT, of all but the first."""
    cores = topology.active_cores(topology.online)
    taken = sorted(cpu for core in cores for cpu in core[1:] if cpu in topology.online)
    found = taken or sorted(topology.online)[1:]
    if not found:
        raise ToolError("only one CPU is online", "bring the others online", ExitCode.ENVIRONMENT)
    return frozenset(found[-SWITCHED:])


def _plan(
    settings: CostSettings, cpus: frozenset[int], rounds: Rounds, shared: Sharing, *, again: bool = False
) -> Settings:
    return Settings(
        operations=parse_operations([name_of(CPUS, format_cpulist(cpus))]),
        variant=settings.variant,
        iterations=rounds.timed,
        count_iterations=rounds.counted,
        warmup=0,
        settle_s=settings.settle_s,
        timeout_s=settings.timeout_s,
        via=VIA,
        boot_method=settings.boot_method,
        emulated=settings.emulated,
        output=settings.output,
        resume=False,
        traces=(STATES,) * rounds.traced,
        traces_as_text=True,
        append=again,
        sharing=shared,
    )


def _stay_off(cpus: frozenset[int]) -> None:
    """Run on one CPU that stays: the profiler loses a call that ends on another CPU than it began on."""
    staying = os.sched_getaffinity(0) - cpus
    if not staying:
        raise ToolError(
            f"this process may run on CPUs {format_cpulist(cpus)} alone, which are to be switched",
            "name others with --cpus, or start it in another cpuset",
            ExitCode.ENVIRONMENT,
        )
    os.sched_setaffinity(0, {min(staying)})
