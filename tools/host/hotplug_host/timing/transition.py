"""One transition: done, verified, and counted if that is asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from hotplug_host.child import ChildResult, Watch
from hotplug_host.clock import now
from hotplug_host.records import FAILED, INTERRUPTED, INVALID, OK
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.counters import Counter, Counts, Durations, subtract
from hotplug_host.timing.operation import Machine, Operation
from hotplug_host.timing.recorder import Trace
from hotplug_host.timing.switch import Driver
from hotplug_host.topology import describe_change, describe_difference, read_control, read_online


@dataclass(frozen=True)
class Transition:
    """One transition as it happened."""

    child: ChildResult
    driver: str
    started: str
    before: frozenset[int]
    after: frozenset[int]
    expected: frozenset[int]
    path: str | None
    counts: Counts | None
    counter: str | None
    status: str
    error: str | None
    trace: Trace | None = None
    #: Seconds of what was counted; None where nothing was, or the kernel does not time it.
    durations: Durations | None = None


def do_transition(
    fs: Sysfs,
    driver: Driver,
    operation: Operation,
    machine: Machine,
    watch: Watch,
    *,
    counter: Counter | None = None,
    recording: AbstractContextManager[list[Trace]] | None = None,
    expected: frozenset[int] | None = None,
) -> Transition:
    """Perform an operation and verify what that left online; count it where a counter is given.

    RECORDING, where given, is a trace that is recorded around it.
    EXPECTED are the CPUs that have to be online afterwards where the machine does not show it beforehand.
    """
    expected = operation.target(machine) if expected is None else expected
    with counter.active() if counter else nullcontext(), recording or nullcontext([]) as traces:
        control_before, before, started = read_control(fs), read_online(fs), now()
        durations_before = counter.read_durations() if counter else {}
        counts_before = counter.read() if counter else {}
        child = driver.perform(operation, machine, watch)
        counts = subtract(counter.read(), counts_before) if counter else None
        durations = _since(counter.read_durations(), durations_before) if counter else None
    after = read_online(fs)
    change = describe_change(machine.topology, fs)
    wrong = describe_difference(expected, after)
    path = None
    if child.error is None and wrong is None:
        control = read_control(fs)
        path = operation.path(control_before, control, machine)
        if path is None:
            wrong = f"smt/control says {control} after {operation.name}"
    trace = traces[0] if traces else None
    losses = describe_losses(trace)
    error = "; ".join(text for text in (change, child.error, wrong, losses) if text) or None
    return Transition(
        child,
        driver.name,
        started,
        before,
        after,
        expected,
        path if error is None else None,
        counts,
        counter.name if counter else None,
        _status(child, error, change),
        error,
        trace,
        durations,
    )


def _since(after: Durations, before: Durations) -> Durations | None:
    """Return the seconds between two readings; None where the kernel gave none."""
    # Before the first call there is no line with seconds, so nothing tells whether the kernel times.
    return subtract(after, {**dict.fromkeys(after, 0.0), **before}) or None


def describe_losses(trace: Trace | None) -> str | None:
    """Return what a trace lacks; None when it is whole, or there is none."""
    if trace is None or trace.lost == 0:
        return None
    return f"the trace lost {trace.lost} events"


def _status(child: ChildResult, error: str | None, change: str | None) -> str:
    if error is None:
        return OK
    if child.aborted:
        return INTERRUPTED
    # What ran into its time limit has to be looked at, whatever else happened to the machine.
    return INVALID if change is not None and not child.timed_out else FAILED
