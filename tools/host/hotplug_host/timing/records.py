"""The records of a run, as docs/reference/result-format.md describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from hotplug_host import __version__
from hotplug_host.clock import now
from hotplug_host.cpulist import format_cpulist
from hotplug_host.hostinfo import read_host, read_rcu
from hotplug_host.restore import SavedState
from hotplug_host.results import SCHEMA, Record
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.operation import Machine
from hotplug_host.timing.plan import Settings
from hotplug_host.timing.step import COUNTED, TRACED, Step
from hotplug_host.timing.transition import OK, Transition


def run_record(run_id: str, settings: Settings, fs: Sysfs, machine: Machine, saved: SavedState) -> Record:
    """Return the record that begins a run."""
    topology = machine.topology
    return {
        "record": "run",
        "schema": SCHEMA,
        "run_id": run_id,
        "label": settings.label,
        "started": now(),
        "tool_version": __version__,
        "host": asdict(read_host(fs, settings.boot_method, settings.emulated)),
        "topology": {
            "possible": format_cpulist(topology.possible),
            "present": format_cpulist(topology.present),
            "online": format_cpulist(machine.baseline),
            "cores": len(machine.active_cores),
            "threads_per_core": topology.threads_per_core,
        },
        "smt": {"control": saved.control, "active": saved.active},
        "rcu": read_rcu(fs),
        "settings": _settings(settings),
    }


def iteration_record(run_id: str, step: Step, transition: Transition) -> Record:
    """Return the record of one transition."""
    counted, timed = step.phase == COUNTED, step.phase not in (COUNTED, TRACED)
    return {
        "record": "iteration",
        "run_id": run_id,
        "index": step.index,
        "operation": step.operation.name,
        "phase": step.phase,
        "path": transition.path,
        "driver": transition.driver,
        "started": transition.started,
        "seconds": transition.child.seconds if timed else None,
        "cpus_before": format_cpulist(transition.before),
        "cpus_after": format_cpulist(transition.after),
        "cpus_expected": format_cpulist(transition.expected),
        "status": transition.status,
        "error": transition.error,
        "counts": transition.counts if transition.status == OK else None,
        "counter": transition.counter if counted else None,
        "trace": _trace(transition),
    }


def end_record(run_id: str, outcome: str, smt_restored: bool) -> Record:
    """Return the record that ends a run."""
    return {
        "record": "end",
        "run_id": run_id,
        "finished": now(),
        "outcome": outcome,
        "smt_restored": smt_restored,
    }


def _trace(transition: Transition) -> Mapping[str, object] | None:
    if transition.trace is None:
        return None
    return {
        "mode": transition.trace.mode,
        "file": transition.trace.file.name,
        "seconds": transition.child.seconds,
        "lost_events": transition.trace.lost,
    }


def _settings(settings: Settings) -> Mapping[str, object]:
    return {
        "operations": [operation.name for operation in settings.operations],
        "iterations": settings.iterations,
        "count_iterations": settings.count_iterations,
        "warmup": settings.warmup,
        "settle_s": settings.settle_s,
        "timeout_s": settings.timeout_s,
        "operation_timeouts_s": {
            operation.name: operation.timeout_s
            for operation in settings.operations
            if operation.timeout_s is not None
        },
        "prepare": settings.prepare.text if settings.prepare else None,
        "cleanup": settings.cleanup.text if settings.cleanup else None,
        "via": settings.via,
        "traces": list(settings.traces),
    }
