"""Time per cpuhp state and per CPU, from the cpuhp tracepoints.

The kernel brackets each callback with cpuhp_enter (or cpuhp_multi_enter, once for each instance) and
cpuhp_exit. Callbacks nest: the one that stops the machine runs the dying CPU's inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hotplug_common.tables import Table
from hotplug_timer.trace.events import Event, Handlers, readable
from hotplug_timer.trace.model import Cells, table
from hotplug_timer.trace.nested import Nested, Span, SpentNested

#: A state by its step and callback.
State = tuple[int, str]


@dataclass
class _Callback(Span):
    step: int = 0
    since: int = 0


@dataclass
class SpentInState(SpentNested):
    """Times in ns of a state, or of a CPU in all of its states."""

    slowest_cpu: int = -1
    failed: int = 0
    #: By the clock: time in which at least one CPU was in the state. CPUs that go together share it.
    clock: int = 0
    inside: int = 0
    since: int = 0

    def enter(self, ns: int) -> None:
        """Note that one more CPU is in the state."""
        if not self.inside:
            self.since = ns
        self.inside += 1

    def leave(self, ns: int) -> None:
        """Note that one CPU less is."""
        self.inside -= 1
        if not self.inside:
            self.clock += max(ns - self.since, 0)

    def add_on(self, cpu: int, took: int, own: int, failed: bool) -> None:
        """Take one more, and remember the CPU where it took longest."""
        if took > self.longest or self.slowest_cpu < 0:
            self.slowest_cpu = cpu
        self.add_nested(took, own)
        self.failed += failed


@dataclass
class States(Nested[_Callback]):
    """Sums up callbacks. Times are in ns; a state's own time is without that of states inside it."""

    spans = "callbacks"
    title = "Time in CPU hotplug callbacks"

    _states: dict[State, SpentInState] = field(default_factory=dict)
    _cpus: dict[int, SpentInState] = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)

    def end_file(self) -> None:
        """Count what was entered and not left."""
        super().end_file()
        for spent in self._states.values():
            spent.inside = 0

    def handlers(self) -> Handlers:
        """Return what takes the cpuhp events."""
        return {"cpuhp_enter": self._enter, "cpuhp_multi_enter": self._enter, "cpuhp_exit": self._exit}

    def by_state(self) -> Mapping[State, SpentInState]:
        """Return what each state took, by its step and callback."""
        return self._left()

    def tables(self, top: int) -> tuple[Table[Cells], ...]:
        """Return the states and the CPUs by time, the longest first."""
        states = sorted(self._left().items(), key=lambda item: -item[1].own)[:top]
        cpus = sorted(self._cpus.items(), key=lambda item: -item[1].total)[:top]
        return (
            table(
                "states",
                "Time per state, by its own time; total is with the states that ran inside it",
                (
                    "step",
                    "callback",
                    "calls",
                    "own (s)",
                    "total (s)",
                    "by the clock (s)",
                    "longest (s)",
                    "on CPU",
                    "failed",
                ),
                tuple(
                    (
                        step,
                        name,
                        spent.times,
                        spent.own / 1e9,
                        spent.total / 1e9,
                        spent.clock / 1e9,
                        spent.longest / 1e9,
                        spent.slowest_cpu,
                        spent.failed,
                    )
                    for (step, name), spent in states
                ),
                ("callback",),
            ),
            table(
                "cpus",
                "Time per CPU that went, in all of its callbacks",
                ("CPU", "callbacks", "total (s)", "longest (s)"),
                tuple((cpu, spent.times, spent.total / 1e9, spent.longest / 1e9) for cpu, spent in cpus),
            ),
        )

    def _left(self) -> dict[State, SpentInState]:
        # One that was entered and never left took an unknown time.
        return {state: spent for state, spent in self._states.items() if spent.times}

    def _enter(self, event: Event) -> None:
        words = event.info.split(None, 6)
        try:
            cpu, step, function = int(words[1]), int(words[5]), words[6]
        except (IndexError, ValueError):
            self._unmatched += 1
            return
        if (name := self._names.get(function)) is None:
            name = self._names[function] = readable(function.strip(b"() "))
        self._open.setdefault(cpu, []).append(_Callback(name, step=step, since=event.ns))
        self._states.setdefault((step, name), SpentInState()).enter(event.ns)

    def _exit(self, event: Event) -> None:
        words = event.info.split()
        try:
            cpu, step, failed = int(words[1]), int(words[5]), words[7] != b"0"
        except (IndexError, ValueError):
            self._unmatched += 1
            return
        stack = self._open.get(cpu, [])
        depth = next((at for at in range(len(stack) - 1, -1, -1) if stack[at].step == step), None)
        if depth is None:
            self._unmatched += 1
            return
        self._unmatched += len(stack) - 1 - depth
        ended = stack[depth]
        for left in stack[depth:]:
            self._states[left.step, left.function].leave(event.ns)
        del stack[depth:]
        took = max(event.ns - ended.since, 0)
        own = self._close(ended, stack, took)
        if not stack:
            self._cpus.setdefault(cpu, SpentInState()).add_on(cpu, took, own, failed)
        self._states[step, ended.function].add_on(cpu, took, own, failed)
