"""Instructions that a guest executes during SMT switches, as the emulator's plugin counts them.

Pure functions. Where seconds of an emulator grow with its CPUs because these wait for each other and for the
emulator, instructions only grow where the kernel has more to do.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotplug_common.kernel.series import PATCHED, VARIANTS
from kernel_qualify.judge.mdtable import heading, row

OPERATIONS = {"cpuhp_smt_disable": "off", "cpuhp_smt_enable": "on"}
"""The kernel's functions that begin a switch."""
END = "control_show"
"""Shows smt/control, which the guest's script reads after each switch."""
MOST_GROWTH = 0.10
"""What one CPU costs may grow by this from the smallest guest to the largest."""
TOP = 12
"""So many functions are kept of each operation, the dearest first."""
IDLE = frozenset(
    [
        "snooze_loop",
        "do_idle",
        "cpuidle_enter_state",
        "cpuidle_enter",
        "default_idle_call",
        "shared_cede_loop",
        "dedicated_cede_loop",
        "check_and_cede_processor",
        "arch_cpu_idle",
        "pseries_lpar_idle",
        "cpuidle_idle_call",
        "plpar_hcall_norets_notrace",
        "tick_nohz_idle_stop_tick",
    ]
)
"""Functions of a CPU that has nothing to do, or gives its processor away while it waits."""
WAITING = frozenset(
    [
        "multi_cpu_stop",
        "stop_machine_yield",
        "take_cpus_down",
        "rcu_momentary_eqs",
        "rcu_momentary_dyntick_idle",
        "rcu_preempt_deferred_qs",  # 7.3 calls it from rcu_momentary_eqs(), and seldom from elsewhere
        "pseries_stop_machine_yield",
        "yield_to_preempted",
        "(waiting)",
    ]
)
"""Functions in which a CPU waits for others of a rendezvous, and what the plugin finds that they called."""
SPINNING = frozenset(
    [
        "__cpu_up",
        "generic_secondary_common_init",
        "smp_call_function_single",
        "__smp_call_function_single",  # the same of 7.3
        "smp_call_function_many_cond",
        "splpar_spin_yield",
        "ktime_get",
        "ktime_get_update_offsets_now",
        "timekeeping_valid_for_hres",
        "ktime_expiry_to_cycles",
        "timekeeping_max_deferment",
        "get_jiffies_update",
        "lock_timer_base",
        "__timer_delete_sync",
        "wait_task_inactive",
        "queued_spin_lock_slowpath",
        "mutex_spin_on_owner",
        "rwsem_spin_on_owner",
        "osq_lock",
        "(spinning)",
    ]
)
"""Functions in which a CPU waits for one other: until it is up, lets this one start, has done what it was
asked, gives a lock back, has run a timer, has written the time, or a task leaves it. An emulator may have
taken that one off its processor, so they are no work."""
NO_WORK = IDLE | WAITING | SPINNING
CALLED = (
    "_find_next_bit",
    "_raw_spin_lock",
    "_raw_spin_lock_bh",
    "_raw_spin_lock_irq",
    "_raw_spin_lock_irqsave",
    "_raw_spin_unlock_irqrestore",
    "arch_local_irq_restore",
)
"""Functions that waiting ones call, or come back to in a loop, and that others call for work."""
ROLES = {
    **dict.fromkeys(OPERATIONS, "b"),
    END: "e",
    "__cpu_disable": "t",
    "multi_cpu_stop": "w",
    "stop_machine_yield": "w",
}
"""What the functions are for the plugin, see plugin/profile.c. A CPU's turn goes from __cpu_disable(), with
which take_cpu_down() begins, until it waits for the others again: on stock in multi_cpu_stop(), on a patched
kernel in take_cpus_down() before, until the last CPU of the chunk has had its turn."""
OTHER_ROLES = {**dict.fromkeys(SPINNING, "s"), **dict.fromkeys(CALLED, "l")}
"""The same of functions that a kernel may lack."""


@dataclass(frozen=True)
class Switches:
    """What one switch takes, medians over several; instructions of all CPUs together unless said otherwise.

    `turns` are CPUs that had a turn in a rendezvous, `turn` the instructions of one (mean over the CPUs),
    `longest_turn` of the longest. `functions` are the dearest, without those of idle and waiting CPUs.
    `waiting` is in a rendezvous, `spinning` for one other CPU. `turn_functions` are the dearest of all turns.
    """

    kernel: str
    operation: str
    cpus: int
    switched: int
    number: int
    work: float
    idle: float
    waiting: float
    spinning: float
    turns: float
    turn: float
    longest_turn: float
    functions: dict[str, float]
    turn_functions: dict[str, float]

    @property
    def work_per_cpu(self) -> float:
        """Return the work for each CPU that is switched."""
        return self.work / self.switched


@dataclass(frozen=True)
class Run:
    """Both kernels in bare guests of several sizes."""

    line: str
    arch: str
    threads: int
    releases: dict[str, str]
    switches: tuple[Switches, ...]


def symbols_file(text: str) -> str:
    """Return the plugin's file of symbols, from lines of "ADDRESS NAME" in the order of addresses.

    Names that several functions have get numbers. ValueError where a function that has a role is missing.
    """
    rows = [(int(address, 16), name) for address, name in (line.split() for line in text.splitlines())]
    begin = next((address for address, name in rows if name in OPERATIONS), 0)
    marks = {address: OTHER_ROLES[name] for address, name in rows if name in OTHER_ROLES}
    for name, role in ROLES.items():
        places = [address for address, found in rows if found == name]
        if not places:
            raise ValueError(f"the kernel has no {name}()")
        # Drivers have functions of the same name: the right one is of kernel/cpu.c, as those that switch.
        marks[min(places, key=lambda address: abs(address - begin))] = role
    seen: dict[str, int] = {}
    lines = []
    for address, name in sorted(dict(rows).items()):
        seen[name] = seen.get(name, 0) + 1
        unique = name if seen[name] == 1 else f"{name}.{seen[name]}"
        lines.append(f"{address:016x} {marks.get(address, '-')} {unique}\n")
    return "".join(lines)


def switches(kernel: str, cpus: int, switched: int, spans: Iterable[dict[str, Any]]) -> list[Switches]:
    """Return what the plugin counted, by operation; the first of each finds caches cold and is left out."""
    by_operation: dict[str, list[dict[str, Any]]] = {}
    for span in spans:
        by_operation.setdefault(OPERATIONS[span["begun_by"]], []).append(span)
    return [
        _summed(kernel, operation, cpus, switched, found[1:]) for operation, found in by_operation.items()
    ]


def _summed(
    kernel: str, operation: str, cpus: int, switched: int, spans: Sequence[dict[str, Any]]
) -> Switches:
    def middle(values: Iterable[float]) -> float:
        return statistics.median(values)

    def of(names: Collection[str]) -> float:
        return middle(sum(span["functions"].get(name, 0) for name in names) for span in spans)

    def work(span: dict[str, Any]) -> int:
        return sum(n for name, n in span["functions"].items() if name not in NO_WORK)

    turns = [[cpu for cpu in span["cpus"] if cpu[1]] for span in spans]

    def dearest(key: str, without: Set[str]) -> dict[str, float]:
        names = {name for span in spans for name in span[key]} - without
        found = {name: middle(span[key].get(name, 0) for span in spans) for name in names}
        return dict(sorted(found.items(), key=lambda item: -item[1])[:TOP])

    return Switches(
        kernel=kernel,
        operation=operation,
        cpus=cpus,
        switched=switched,
        number=len(spans),
        work=middle(work(span) for span in spans),
        idle=of(IDLE),
        waiting=of(WAITING),
        spinning=of(SPINNING),
        turns=middle(sum(cpu[1] for cpu in having) for having in turns),
        turn=middle(
            sum(cpu[2] for cpu in having) / max(1, sum(cpu[1] for cpu in having)) for having in turns
        ),
        longest_turn=middle(max((cpu[3] for cpu in having), default=0) for having in turns),
        functions=dearest("functions", NO_WORK),
        turn_functions=dearest("turn_functions", frozenset()),
    )


def with_earlier(run: Run, earlier: Run) -> Run:
    """Return a run with what an earlier one of the same kernels and threads per core has of other sizes."""
    releases = {**earlier.releases, **run.releases}
    if run.threads != earlier.threads or releases != {**run.releases, **earlier.releases}:
        return run
    have = {(one.kernel, one.cpus) for one in run.switches}
    kept = tuple(one for one in earlier.switches if (one.kernel, one.cpus) not in have)
    return replace(run, releases=releases, switches=(*kept, *run.switches))


def growth(run: Run, kernel: str, operation: str, *, turn: bool = False) -> float | None:
    """Return by what part one CPU costs more in the largest guest than in the smallest; None of one guest."""
    found = sorted(
        (one for one in run.switches if (one.kernel, one.operation) == (kernel, operation)),
        key=lambda one: one.cpus,
    )
    values = [one.turn if turn else one.work_per_cpu for one in found]
    return values[-1] / values[0] - 1 if len(values) > 1 and values[0] else None


def problems(run: Run) -> list[str]:
    """Return what grows with the number of CPUs on the patched kernel, and CPUs that had no turn."""
    found = [
        f"off, {one.cpus} CPUs, {one.kernel}: {one.turns:g} turns for {one.switched} CPUs"
        for one in run.switches
        if one.operation == "off" and one.turns != one.switched
    ]
    for operation, turn in (("off", False), ("off", True), ("on", False)):
        grown = growth(run, PATCHED, operation, turn=turn)
        if grown is not None and grown > MOST_GROWTH:
            what = "a turn" if turn else "a CPU"
            found.append(f"{operation}: the instructions of {what} grow by {100 * grown:.0f}%")
    return found


def table(runs: Sequence[Run]) -> str:
    """Return a row for each guest, kernel and operation, for each CPU switched, in Markdown."""
    head = [
        "guest",
        "kernel",
        "operation",
        "switches",
        "work for each CPU switched",
        "one turn",
        "longest turn",
    ]
    lines = heading([*head, "waiting in rendezvous", "spinning", "dearest functions", "dearest in a turn"])
    for run in runs:
        for one in sorted(
            run.switches, key=lambda one: (one.cpus, one.operation, VARIANTS.index(one.kernel))
        ):
            shape = f"{run.arch}, {one.cpus // run.threads} x {run.threads}"
            off = one.operation == "off"
            cells = [shape, one.kernel, one.operation, str(one.number), f"{one.work_per_cpu:,.0f}"]
            cells += [f"{one.turn:,.0f}" if off else "", f"{one.longest_turn:,.0f}" if off else ""]
            cells += [
                f"{one.waiting / one.switched:,.0f}" if off else "",
                f"{one.spinning / one.switched:,.0f}",
            ]
            lines.append(
                row([*cells, *(_dearest(one, names) for names in (one.functions, one.turn_functions))])
            )
    return "\n".join([*lines, ""])


def _dearest(one: Switches, functions: dict[str, float]) -> str:
    return ", ".join(f"`{name}` {count / one.switched:,.0f}" for name, count in list(functions.items())[:4])


def load(path: Path) -> Run:
    """Read what keeping.save() wrote; KeyError or TypeError for anything else."""
    facts = json.loads(path.read_text())
    found = [Switches(**one) for one in facts.pop("switches")]
    return Run(**facts, switches=tuple(found))
