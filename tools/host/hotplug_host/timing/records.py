"""What a run of hotplug-timer adds to its records."""

from __future__ import annotations

from hotplug_host import records
from hotplug_host.cpulist import format_cpulist
from hotplug_host.operations import change
from hotplug_host.records import COUNTED, OK, TRACED, Host, Measured, Origin, Record
from hotplug_host.restore import SavedState
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.operation import Machine
from hotplug_host.timing.plan import Settings
from hotplug_host.timing.recorder import Trace
from hotplug_host.timing.step import Step
from hotplug_host.timing.transition import Transition
from hotplug_host.topology import read_states


def run_record(origin: Origin, settings: Settings, fs: Sysfs, machine: Machine, saved: SavedState) -> Record:
    """Return the record that begins a run."""
    host = Host(fs, machine.topology, machine.baseline, settings.boot_method, settings.emulated)
    core = records.Settings(
        operations=[operation.name for operation in settings.operations],
        iterations=settings.iterations,
        warmup=settings.warmup,
        settle_s=settings.settle_s,
        timeout_s=settings.timeout_s,
    )
    detail = {
        "smt": {"control": saved.control, "active": saved.active},
        "count_iterations": settings.count_iterations,
        "operation_timeouts_s": {
            operation.name: operation.timeout_s
            for operation in settings.operations
            if operation.timeout_s is not None
        },
        "prepare": settings.prepare.text if settings.prepare else None,
        "cleanup": settings.cleanup.text if settings.cleanup else None,
        "via": settings.via,
        "traces": list(settings.traces),
        "hotplug_states": read_states(fs),
        **(vars(settings.sharing) if settings.sharing else {}),
    }
    return records.run_record(origin, host, core, detail)


def iteration_record(origin: Origin, step: Step, transition: Transition) -> Record:
    """Return the record of one transition."""
    untimed = step.phase in (COUNTED, TRACED)
    measured = Measured(
        index=step.index,
        operation=step.operation.name,
        phase=step.phase,
        started=transition.started,
        seconds=None if untimed else transition.child.seconds,
        status=transition.status,
        error=transition.error,
    )
    direction, switched = change(transition.before, transition.after)
    detail = {
        "direction": direction,
        "switched": switched,
        "path": transition.path,
        "driver": transition.driver,
        "cpus_before": format_cpulist(transition.before),
        "cpus_after": format_cpulist(transition.after),
        "cpus_expected": format_cpulist(transition.expected),
        "counts": transition.counts if transition.status == OK else None,
        "counter": transition.counter if step.phase == COUNTED else None,
        "durations_s": transition.durations if transition.status == OK else None,
        "trace": _trace(transition.trace, transition.child.seconds),
    }
    return records.iteration_record(origin, measured, detail)


def _trace(trace: Trace | None, seconds: float | None) -> Record | None:
    if trace is None:
        return None
    return {"mode": trace.mode, "file": trace.file.name, "seconds": seconds, "lost_events": trace.lost}
