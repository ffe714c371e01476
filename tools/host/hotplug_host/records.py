"""The records of a result file, schema result/3: one form for all tools, with a `detail` of each tool's own.

result-v3.schema.json describes every field.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hotplug_host import __version__
from hotplug_host.clock import now
from hotplug_host.cpulist import format_cpulist
from hotplug_host.hostinfo import read_host, read_rcu
from hotplug_host.sysfs import Sysfs
from hotplug_host.topology import Topology

FAMILY, VERSION = "result", 3
SCHEMA = f"{FAMILY}/{VERSION}"
#: The tools that write results.
TIMER, CLOCK_CHECK = "hotplug-timer", "clock-check"
RUN, ITERATION, END = "run", "iteration", "end"
WARMUP, TIMED, COUNTED, TRACED = "warmup", "timed", "counted", "traced"
OK, FAILED, INVALID, INTERRUPTED = "ok", "failed", "invalid", "interrupted"
#: How a run ends: this, or FAILED or INTERRUPTED.
COMPLETE = "complete"
Record = dict[str, Any]


@dataclass(frozen=True)
class Origin:
    """The run that records belong to: the tool that writes them, and the variant."""

    tool: str
    variant: str
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass(frozen=True)
class Host:
    """The host of a run. `online` are the CPUs online before it."""

    fs: Sysfs
    topology: Topology
    online: frozenset[int]
    boot_method: str
    emulated: bool


@dataclass(frozen=True)
class Settings:
    """The settings that all tools have; times are in seconds."""

    operations: Sequence[str]
    iterations: int
    warmup: int
    settle_s: float
    timeout_s: float


@dataclass(frozen=True)
class Measured:
    """One iteration. `seconds` is None without a sample; `error` is None when `status` is OK."""

    index: int
    operation: str
    phase: str
    started: str
    seconds: float | None
    status: str
    error: str | None


def record(kind: str, tool: str, run_id: str, fields: Mapping[str, object]) -> Record:
    """Return a record of KIND. A result file begins with the first of its keys."""
    return {"record": kind, "schema": SCHEMA, "tool": tool, "run_id": run_id, **fields}


def run_record(origin: Origin, host: Host, settings: Settings, detail: Mapping[str, object]) -> Record:
    """Return the record that begins a run."""
    topology = host.topology
    fields = {
        "variant": origin.variant,
        "started": now(),
        "tool_version": __version__,
        "host": asdict(read_host(host.fs, host.boot_method, host.emulated)),
        "topology": {
            "possible": format_cpulist(topology.possible),
            "present": format_cpulist(topology.present),
            "online": format_cpulist(host.online),
            "cores": max(len(topology.active_cores(host.online)), 1),
            "threads_per_core": topology.threads_per_core,
        },
        "rcu": read_rcu(host.fs),
        "settings": {**asdict(settings), "operations": list(settings.operations)},
        "detail": detail,
    }
    return record(RUN, origin.tool, origin.run_id, fields)


def iteration_record(origin: Origin, measured: Measured, detail: Mapping[str, object]) -> Record:
    """Return the record of one iteration."""
    return record(ITERATION, origin.tool, origin.run_id, {**asdict(measured), "detail": detail})


def end_record(origin: Origin, outcome: str, restored: bool) -> Record:
    """Return the record that ends a run. RESTORED says whether the host is as it was before."""
    fields = {"finished": now(), "outcome": outcome, "restored": restored}
    return record(END, origin.tool, origin.run_id, fields)
