"""Blocked time from sched_switch and the stacks recorded with it.

A thread is blocked from the switch that took it off its CPU, in another state than running, to the one
that put it on again. That includes its wait for a CPU once it was woken, as bcc's offcputime has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hotplug_timer.trace.blocked import NO_STACK, Blocked, Where, idle_notices, is_idle, thread_kind
from hotplug_timer.trace.events import Event, Handlers, frames, readable
from hotplug_timer.trace.model import Spent

#: As trace-cmd's plugin prints it, and as the kernel's own format does. Names may hold anything.
SWITCH = re.compile(
    rb"(?:(.{0,20}?):(\d+) \[-?\d+\] (\S+) ==> (.{0,20}?):(\d+) \[-?\d+\]"
    rb"|prev_comm=(.{0,20}?) prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==>"
    rb" next_comm=(.{0,20}?) next_pid=(\d+) next_prio=-?\d+)\s*$"
)
RUNNING = (b"R", b"R+")


@dataclass
class _Wait:
    thread: str
    since: int
    stack: bytes = b""


@dataclass
class OffCpu(Blocked):
    """Sums up waits."""

    _waits: dict[int, _Wait] = field(default_factory=dict)
    _blocked: dict[tuple[str, bytes], Spent] = field(default_factory=dict)
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

    def notices(self) -> tuple[str, ...]:
        """Return what was left out."""
        idle = sum(
            spent.total for (_, stack), spent in self._blocked.items() if is_idle(self._stacks.get(stack, ()))
        )
        notes = idle_notices(idle)
        if self._unended:
            notes.append(f"{self._unended} waits did not end in the trace and are left out")
        if self._unread:
            notes.append(f"{self._unread} switches could not be read and are left out")
        return tuple(notes)

    def busy(self) -> dict[Where, Spent]:
        """Return waits that are not idle, by thread and frames: addresses may differ where names do not."""
        busy: dict[Where, Spent] = {}
        for (thread, raw), spent in self._blocked.items():
            stack = self._stacks.get(raw, ())
            # Of threads not concerned there are no stacks, and only switches from and to those that are.
            if is_idle(stack) or (self._stacks and not stack):
                continue
            busy.setdefault((thread, stack or (NO_STACK,)), Spent()).merge(spent)
        return busy

    def _switch(self, event: Event) -> None:
        found = SWITCH.match(event.info)
        if found is None:
            self._unread += 1
            return
        comm, prev, state, _, following = found.groups()[:5] if found[1] is not None else found.groups()[5:]
        wait = self._waits.pop(int(following), None)
        if wait is not None:
            took = max(event.ns - wait.since, 0)
            self._blocked.setdefault((wait.thread, wait.stack), Spent()).add(took)
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
