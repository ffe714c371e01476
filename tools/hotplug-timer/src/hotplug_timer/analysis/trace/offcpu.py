"""Blocked time by thread and kernel stack, from sched_switch and the stacks recorded with it.

A thread is blocked from the switch that took it off its CPU, in another state than running, to the one
that put it on again. That includes its wait for a CPU once it was woken, as bcc's offcputime has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hotplug_timer.analysis.trace.events import Event, Handlers, frames, readable
from hotplug_timer.analysis.trace.model import Analysis, Folded, Table

#: As trace-cmd's plugin prints it, and as the kernel's own format does. Names may hold anything.
SWITCH = re.compile(
    rb"(?:(.{0,20}?):(\d+) \[-?\d+\] (\S+) ==> (.{0,20}?):(\d+) \[-?\d+\]"
    rb"|prev_comm=(.{0,20}?) prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==>"
    rb" next_comm=(.{0,20}?) next_pid=(\d+) next_prio=-?\d+)\s*$"
)
RUNNING = (b"R", b"R+")
#: The scheduler's own frames, in which every wait ends.
SCHEDULER = frozenset(
    {"__schedule", "schedule", "schedule_timeout", "__cond_resched", "preempt_schedule_common"}
)
#: What waiting for something goes through: in all stacks, so not in the table.
HELPERS = SCHEDULER | {
    "__wait_for_common",
    "wait_for_common",
    "wait_for_completion",
    "wait_for_completion_state",
    "__wait_rcu_gp",
}
#: A thread that waits here has nothing to do.
IDLE = frozenset({"smpboot_thread_fn", "worker_thread", "cpu_stopper_thread", "rescuer_thread", "kthread"})
NO_STACK = "[no stack]"
#: So many frames are in a table's cell; the folded stacks have all of them.
SHOWN = 8
NUMBERS = re.compile(r"/[\d:uH]+.*$")


@dataclass
class _Wait:
    thread: str
    since: int
    stack: bytes = b""


@dataclass
class _Blocked:
    waits: int = 0
    total: int = 0
    longest: int = 0


@dataclass
class OffCpu(Analysis):
    """Sums up waits. Times are in ns; a thread's CPU is left out of its name, so that all cpuhp/N are one."""

    unit = "microseconds"
    title = "Blocked time of the writer and of the kernel's hotplug threads, by kernel stack"

    _waits: dict[int, _Wait] = field(default_factory=dict)
    _blocked: dict[tuple[str, bytes], _Blocked] = field(default_factory=dict)
    _stacks: dict[bytes, tuple[str, ...]] = field(default_factory=dict)
    _threads: dict[bytes, str] = field(default_factory=dict)
    _unended: int = 0
    _unread: int = 0

    def handlers(self) -> Handlers:
        """Return what takes switches and stacks."""
        return {"sched_switch": self._switch, "kernel_stack": self._stack}

    def end_file(self) -> None:
        """Count waits without an end."""
        self._unended += len(self._waits)
        self._waits.clear()

    def tables(self, top: int) -> tuple[Table, ...]:
        """Return stacks by blocked time, the longest first."""
        found = sorted(self._busy().items(), key=lambda item: -item[1].total)
        whole = sum(blocked.total for _, blocked in found) or 1
        rows = tuple(
            (
                key[0],
                blocked.total / 1e9,
                100 * blocked.total / whole,
                blocked.waits,
                blocked.longest / 1e9,
                _shown(key[1]),
            )
            for key, blocked in found[:top]
        )
        return (
            Table(
                "offcpu",
                "Blocked time by kernel stack, innermost frame first",
                ("thread", "blocked (s)", "share (%)", "waits", "longest (s)", "stack"),
                rows,
                frozenset({"thread", "stack"}),
            ),
        )

    def folded(self) -> Folded:
        """Return stacks below their thread, with blocked time."""
        return {(thread, *stack): found.total // 1000 for (thread, stack), found in self._busy().items()}

    def notices(self) -> tuple[str, ...]:
        """Return what was left out."""
        idle = sum(
            blocked.total
            for (_, stack), blocked in self._blocked.items()
            if is_idle(self._stacks.get(stack, ()))
        )
        notes = []
        if idle:
            notes.append(f"{idle / 1e9:.3f} s in which threads had nothing to do are left out")
        if self._unended:
            notes.append(f"{self._unended} waits did not end in the trace and are left out")
        if self._unread:
            notes.append(f"{self._unread} switches could not be read and are left out")
        return tuple(notes)

    def _busy(self) -> dict[tuple[str, tuple[str, ...]], _Blocked]:
        """Return waits that are not idle, by thread and frames: addresses may differ where names do not."""
        busy: dict[tuple[str, tuple[str, ...]], _Blocked] = {}
        for (thread, raw), found in self._blocked.items():
            stack = self._stacks.get(raw, ())
            # Of threads not concerned there are no stacks, and only switches from and to those that are.
            if is_idle(stack) or (self._stacks and not stack):
                continue
            entry = busy.setdefault((thread, stack or (NO_STACK,)), _Blocked())
            entry.waits += found.waits
            entry.total += found.total
            entry.longest = max(entry.longest, found.longest)
        return busy

    def _switch(self, event: Event) -> None:
        found = SWITCH.match(event.info)
        if found is None:
            self._unread += 1
            return
        comm, prev, state, _, following = found.groups()[:5] if found[1] is not None else found.groups()[5:]
        wait = self._waits.pop(int(following), None)
        if wait is not None:
            self._end(wait, event.ns)
        if state not in RUNNING and prev != b"0":
            if (thread := self._threads.get(comm)) is None:
                thread = self._threads[comm] = thread_kind(readable(comm))
            self._waits[int(prev)] = _Wait(thread, event.ns)

    def _stack(self, event: Event) -> None:
        wait = self._waits.get(event.pid)
        if wait is not None and not wait.stack:
            wait.stack = event.stack
            if event.stack not in self._stacks:
                self._stacks[event.stack] = frames(event.stack)

    def _end(self, wait: _Wait, ns: int) -> None:
        took = max(ns - wait.since, 0)
        key = (wait.thread, wait.stack)
        if (blocked := self._blocked.get(key)) is None:
            blocked = self._blocked[key] = _Blocked()
        blocked.waits += 1
        blocked.total += took
        blocked.longest = max(blocked.longest, took)


def thread_kind(name: str) -> str:
    """Return a thread's name with N for its CPU: cpuhp/12 is cpuhp/N, kworker/3:1H is kworker/N."""
    return NUMBERS.sub("/N", name)


def is_idle(stack: tuple[str, ...]) -> bool:
    """Whether a stack (outermost frame first) is that of a thread waiting for something to do."""
    inner = next((name for name in reversed(stack) if name not in SCHEDULER), None)
    return inner in IDLE


def _shown(stack: tuple[str, ...]) -> str:
    inner = [name for name in reversed(stack) if name not in HELPERS] or list(reversed(stack))
    more = " < ..." if len(inner) > SHOWN else ""
    return " < ".join(inner[:SHOWN]) + more
