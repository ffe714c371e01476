"""Traces as `trace-cmd report -t` prints them, made up but consistent, of any length.

`python tracefiles.py MODE EVENTS FILE` writes one: what the time and memory of an analysis is measured with.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

#: Times are in ns. Each wait has a switch out, its stack, and a switch in: three events.
STACKS = (
    (
        "synchronize_rcu",
        "cpuidle_uninstall_idle_handler",
        "pseries_cpuidle_cpu_dead",
        "cpuhp_invoke_callback",
    ),
    ("synchronize_rcu", "sched_cpu_deactivate", "cpuhp_invoke_callback", "cpuhp_thread_fun"),
    ("stop_machine_cpuslocked", "takedown_cpu", "cpuhp_invoke_callback", "_cpu_down"),
)
STATES = ((231, "sched_cpu_deactivate"), (199, "pseries_cpuidle_cpu_dead"), (93, "takedown_cpu"))
START = 100_000_000_000


def line(task: str, cpu: int, ns: int, event: str, info: str) -> str:
    """Return one event's line, its columns as wide as trace-cmd makes them."""
    comm, _, pid = task.rpartition("-")
    return f"{comm:>16}-{pid:<5} [{cpu:03d}] {ns // 10**9:>5}.{ns % 10**9:09d}: {event + ':':<21} {info}\n"


def offcpu_lines() -> Iterator[str]:
    """Yield events of threads that wait by turns for 1 ms each."""
    for number in count():
        cpu, pid, ns = number % 16, 100 + number % 16, START + number * 1_100_000
        task = f"cpuhp/{cpu}-{pid}"
        me, idle = f"cpuhp/{cpu}:{pid} [120]", f"swapper/{cpu}:0 [120]"
        yield line(task, cpu, ns, "sched_switch", f"{me} D ==> {idle}")
        stack = ("__schedule", "schedule", *STACKS[number % 3], "kthread")
        frames = "".join(f"=> {name} (c00000000{at:07x})\n" for at, name in enumerate(stack))
        yield line(task, cpu, ns + 500, "kernel_stack", "<stack trace >") + frames
        yield line("<idle>-0", cpu, ns + 1_000_000, "sched_switch", f"{idle} R ==> {me}")


def states_lines() -> Iterator[str]:
    """Yield callbacks that take 1 ms each."""
    for number in count():
        (step, name), cpu = STATES[number % 3], 1 + number % 1919
        ns, task = START + number * 1_000_000, f"cpuhp/{cpu}-{100 + cpu}"
        yield line(task, cpu, ns, "cpuhp_enter", f"cpu: {cpu:04d} target:   0 step: {step:3d} ({name})")
        yield line(
            task,
            cpu,
            ns + 1_000_000,
            "cpuhp_exit",
            f" cpu: {cpu:04d}  state: {step:3d} step: {step:3d} ret: 0",
        )


def write(path: Path, mode: str, events: int) -> None:
    """Write a trace with so many events."""
    make = {"offcpu": offcpu_lines, "states": states_lines}[mode]
    with path.open("w") as file:
        file.write("cpus=16\n")
        file.writelines(islice(make(), events))


if __name__ == "__main__":
    write(Path(sys.argv[3]), sys.argv[1], int(sys.argv[2]))
