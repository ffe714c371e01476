"""The modes of tracing a transition: what trace-cmd is asked to record in each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from hotplug_host.timing.counters import FUNCTIONS, OPTIONAL_FUNCTIONS, traceable

COUNTS, STATES, OFFCPU, GRAPH = "counts", "states", "offcpu", "graph"
MODES = (COUNTS, STATES, OFFCPU, GRAPH)

STATE_EVENTS = ("cpuhp/cpuhp_enter", "cpuhp/cpuhp_multi_enter", "cpuhp/cpuhp_exit")
SWITCH_EVENT = "sched/sched_switch"
#: Recorded where the kernel has them (6.4 and later).
IPI_EVENTS = ("ipi/ipi_send_cpu", "ipi/ipi_send_cpumask")
#: Kernel threads that do the work of a transition: on the CPUs that go, in stop_machine, and for the writer.
THREADS = ("cpuhp/*", "migration/*", "kworker/*")
#: Below these, on the threads of one CPU, is its way down or up.
GRAPH_FUNCTIONS = ("cpuhp_thread_fun", "multi_cpu_stop")
#: Deeper calls are short ones, and so many that the buffer would not hold them.
GRAPH_DEPTH = 10


@dataclass(frozen=True)
class Needs:
    """What a mode needs of the kernel: events (SYSTEM/NAME), a tracer, and functions it can trace.

    Each of `functions` is the names one may have.
    """

    events: tuple[str, ...] = ()
    tracer: str | None = None
    functions: tuple[tuple[str, ...], ...] = ()


NEEDS = {
    COUNTS: Needs(tracer="function", functions=tuple(FUNCTIONS.values())),
    STATES: Needs(events=STATE_EVENTS),
    OFFCPU: Needs(events=(SWITCH_EVENT,)),
    GRAPH: Needs(tracer="function_graph", functions=tuple((name,) for name in GRAPH_FUNCTIONS)),
}


def counts_arguments(functions: frozenset[str], events: frozenset[str]) -> list[str]:
    """Return trace-cmd's options for `counts`, of the functions and events this kernel has."""
    arguments = ["-p", "function"]
    for name in traceable({**FUNCTIONS, **OPTIONAL_FUNCTIONS}, functions).values():
        arguments += ["-l", name]
    return [*arguments, *_events(name for name in IPI_EVENTS if name in events)]


def states_arguments() -> list[str]:
    """Return trace-cmd's options for `states`."""
    return _events(STATE_EVENTS)


def offcpu_arguments(writer: str) -> list[str]:
    """Return trace-cmd's options for `offcpu`: switches of the threads concerned, and stacks.

    WRITER is the name of the task that does the switch. A name is cut at 15 bytes by the kernel, and what
    would end the kernel's string is any character here.
    """
    name = "".join(char if char.isalnum() or char in "-_./:" else "?" for char in writer[:15])
    sides = ("prev", "next")
    leaving, coming = (
        " || ".join(f'{which}_comm ~ "{pattern}"' for pattern in (*THREADS, name)) for which in sides
    )
    return [
        *_events((SWITCH_EVENT,)),
        "-f",
        f"{leaving} || {coming}",
        "-R",
        f"stacktrace if prev_state != 0 && ({leaving})",
    ]


def graph_arguments(pids: tuple[int, ...]) -> list[str]:
    """Return trace-cmd's options for `graph`, of the threads with these process ids."""
    arguments = ["-p", "function_graph", "--max-graph-depth", str(GRAPH_DEPTH)]
    for name in GRAPH_FUNCTIONS:
        arguments += ["-g", name]
    for pid in pids:
        arguments += ["-P", str(pid)]
    return arguments


def describe_overhead(seconds: float, timed: list[float]) -> str:
    """Return what a traced transition took, held against timed ones (seconds)."""
    if not timed:
        return f"took {seconds:.3f} s with tracing; nothing was timed in this run to hold that against"
    usual = median(timed)
    return (
        f"took {seconds:.3f} s with tracing, {100 * (seconds - usual) / usual:+.0f}% against the median of"
        f" {len(timed)} timed, {usual:.3f} s; it counts as none of them"
    )


def _events(names: Iterable[str]) -> list[str]:
    return [word for name in names for word in ("-e", name.replace("/", ":"))]
