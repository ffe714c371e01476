"""Blocked time by thread and kernel stack: what all sources of it have in common."""

from __future__ import annotations

import abc
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from hotplug_common.tables import Table
from hotplug_timer.trace.model import STACK, Analysis, Cell, Cells, Folded, Spent, table

#: The scheduler's own frames, in which every wait ends. bcc's offcputime looks from the last of them.
SCHEDULER = frozenset(
    {
        "__schedule",
        "schedule",
        "schedule_timeout",
        "schedule_preempt_disabled",
        "__cond_resched",
        "preempt_schedule_common",
        "finish_task_switch",
    }
)
#: What waiting for something goes through: in all stacks, so not in the table.
HELPERS = SCHEDULER | {
    "__wait_for_common",
    "wait_for_common",
    "wait_for_completion",
    "wait_for_completion_killable",
    "wait_for_completion_state",
    "__wait_rcu_gp",
}
#: Who waits in one of these waits for a worker, a hotplug thread or a stopper, whose own waits are recorded.
HANDED_ON = frozenset(
    {
        "__flush_work",
        "__stop_cpus",
        "bringup_cpu",
        "cpuhp_kick_ap",
        "cpuhp_kick_ap_work",
        "kthread_park",
        "stop_one_cpu",
        "wait_for_ap_thread",
    }
)
#: A thread that waits here has nothing to do.
IDLE = frozenset({"smpboot_thread_fn", "worker_thread", "cpu_stopper_thread", "rescuer_thread", "kthread"})
#: Who waits in here waits until the switch is over.
HOTPLUG_LOCK = "cpus_read_lock"
NO_STACK = "[no stack]"
#: So many frames are in a table's cell; the folded stacks have all of them.
SHOWN = 8
NUMBERS = re.compile(r"/[\d:uH]+.*$")

#: A thread's kind, and its stack with the outermost frame first.
Where = tuple[str, tuple[str, ...]]


@dataclass
class Blocked(Analysis):
    """Blocked time in ns. A thread's CPU is left out of its name, so that all cpuhp/N are one."""

    unit = "microseconds"
    title = "Blocked time of the writer and of the kernel's hotplug threads, by kernel stack"
    #: Whether the source tells one wait from the next.
    single_waits: ClassVar[bool] = True

    @abc.abstractmethod
    def busy(self) -> Mapping[Where, Spent]:
        """Return the time of threads that had something to do."""

    def tables(self, top: int) -> tuple[Table[Cells], ...]:
        """Return stacks by blocked time, the longest first; those that wait for each other apart."""
        found = sorted(self.busy().items(), key=lambda item: -item[1].total)
        causes = [item for item in found if not is_handed_on(item[0][1])]
        others = [item for item in found if is_handed_on(item[0][1])]
        return (
            self._table("offcpu", "Blocked time by kernel stack, innermost frame first", causes, top),
            self._table("handed_on", "Blocked while another of these threads does the work", others, top),
        )

    def folded(self) -> Folded:
        """Return stacks below their thread, with blocked time."""
        return {(thread, *stack): spent.total // 1000 for (thread, stack), spent in self.busy().items()}

    def _table(self, name: str, heading: str, found: list[tuple[Where, Spent]], top: int) -> Table[Cells]:
        whole = sum(spent.total for _, spent in found) or 1
        rows = tuple(
            (
                thread,
                spent.total / 1e9,
                100 * spent.total / whole,
                *self._each(spent.times, spent.longest / 1e9),
                _shown(stack),
            )
            for (thread, stack), spent in found[:top]
        )
        columns = ("thread", "blocked (s)", "share (%)", *self._each("waits", "longest (s)"), STACK)
        return table(name, heading, tuple(map(str, columns)), rows, ("thread",))

    def _each(self, *cells: Cell) -> tuple[Cell, ...]:
        return cells if self.single_waits else ()


def thread_kind(name: str) -> str:
    """Return a thread's name with N for its CPU: cpuhp/12 is cpuhp/N, kworker/3:1H is kworker/N."""
    return NUMBERS.sub("/N", name)


def is_idle(stack: tuple[str, ...]) -> bool:
    """Whether a stack (outermost frame first) is that of a thread waiting for something to do."""
    return _innermost(stack, SCHEDULER) in IDLE


def is_handed_on(stack: tuple[str, ...]) -> bool:
    """Whether a stack (outermost frame first) is that of a wait for another thread of the switch."""
    return _innermost(stack, HELPERS) in HANDED_ON or HOTPLUG_LOCK in stack


def idle_notices(ns: int) -> list[str]:
    """Return what to say of the time in which threads had nothing to do; nothing when there was none."""
    return [f"{ns / 1e9:.3f} s in which threads had nothing to do are left out"] if ns else []


def _innermost(stack: tuple[str, ...], without: frozenset[str]) -> str | None:
    return next((name for name in reversed(stack) if name not in without), None)


def _shown(stack: tuple[str, ...]) -> str:
    inner = [name for name in reversed(stack) if name not in HELPERS] or list(reversed(stack))
    more = " < ..." if len(inner) > SHOWN else ""
    return " < ".join(inner[:SHOWN]) + more
