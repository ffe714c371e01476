"""The records of a result file, as docs/reference/result-format.md describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from hotplug_host import __version__
from hotplug_host.clock import now
from hotplug_host.clocksource import Clocksources
from hotplug_host.cpulist import format_cpulist
from hotplug_host.hostinfo import read_host, read_rcu
from hotplug_host.sysfs import Sysfs
from hotplug_host.topology import read_topology

SCHEMA = "clock-check/1"
OK, FAILED, INVALID = "ok", "failed", "invalid"
COMPLETE, INTERRUPTED = "complete", "interrupted"
WARMUP, TIMED = "warmup", "timed"
#: What an iteration says beside its seconds is under the name of one of these.
DETAILS = ("scale", "order", "drift")
Record = dict[str, object]


@dataclass(frozen=True)
class Subject:
    """What a run measures. `clocksource` is None where the kernel does not say which it uses."""

    run_id: str
    label: str
    clocksource: str | None
    cpus: tuple[int, ...]


@dataclass(frozen=True)
class Turn:
    """Which iteration it is: its phase, and its number in that, from 1."""

    phase: str
    index: int


def run_record(
    fs: Sysfs,
    subject: Subject,
    found: Clocksources,
    settings: Mapping[str, object],
    operations: Sequence[str],
    *,
    boot_method: str,
    emulated: bool,
) -> Record:
    """Return the record that begins a run. FOUND are the clocksources as they were before it."""
    topology = read_topology(fs)
    return {
        "record": "run",
        "schema": SCHEMA,
        "run_id": subject.run_id,
        "label": subject.label,
        "started": now(),
        "tool_version": __version__,
        "host": asdict(read_host(fs, boot_method, emulated)),
        "topology": {
            "possible": format_cpulist(topology.possible),
            "present": format_cpulist(topology.present),
            "online": format_cpulist(topology.online),
            "cores": max(len(topology.active_cores(topology.online)), 1),
            "threads_per_core": topology.threads_per_core,
        },
        "rcu": read_rcu(fs),
        "clock": {
            "clocksource": subject.clocksource,
            "found": found.current,
            "available": list(found.available),
        },
        "settings": {"operations": list(operations), "cpus": format_cpulist(subject.cpus), **settings},
    }


def iteration_record(
    subject: Subject,
    turn: Turn,
    operation: str,
    *,
    started: str,
    status: str,
    error: str | None,
    seconds: float | None,
    detail: Mapping[str, object] | None,
) -> Record:
    """Return the record of one measurement."""
    return {
        "record": "iteration",
        "schema": SCHEMA,
        "run_id": subject.run_id,
        "index": turn.index,
        "operation": operation,
        "phase": turn.phase,
        "started": started,
        "seconds": seconds,
        "cpus": format_cpulist(subject.cpus),
        "status": status,
        "error": error,
        **{name: detail if name == kind_of(operation) else None for name in DETAILS},
    }


def kind_of(operation: str) -> str:
    """Return the one of `DETAILS` that an operation gives: at a frequency or not, drift is drift."""
    name = operation.partition("/")[0]
    return name if name in DETAILS else "drift"


def end_record(subject: Subject, outcome: str, restored: bool) -> Record:
    """Return the record that ends a run."""
    return {
        "record": "end",
        "schema": SCHEMA,
        "run_id": subject.run_id,
        "finished": now(),
        "outcome": outcome,
        "restored": restored,
    }
