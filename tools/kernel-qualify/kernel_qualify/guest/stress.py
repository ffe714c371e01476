"""Switch SMT again and again while everything that cares about CPUs goes on, and report what came of it."""

# ruff: noqa: S311
from __future__ import annotations

import argparse
import platform
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from kernel_qualify.guest import cpusets, loads, machine
from kernel_qualify.guest.cpusets import Cpuset
from kernel_qualify.guest.loads import Load, Step
from kernel_qualify.guest.machine import CHUNK, CPUS, KernelLog, Rendezvous, present, record, switch, write
from kernel_qualify.guest.parking import Parking

MODES = ("off", "on", "2", "4")
QUEUE_LOAD = "hardware queues"
DEADLINE_LOAD = "deadline task"
"""Missing where the kernel is one of PREEMPT_RT, see add_deadline()."""


class Crowd:
    """The loads that run at the same time."""

    def __init__(self) -> None:
        self.loads: list[Load] = []

    def add(self, name: str, setup: Callable[[], Step], pause: float) -> int:
        """Start one more; return its pid."""
        self.loads.append(Load(name, setup, pause))
        return self.loads[-1].pid

    def end(self) -> None:
        """Stop all of them and report what they did."""
        for load in self.loads:
            load.end()
        for load in self.loads:
            load.wait()
        record("loads", started=sorted({load.name for load in self.loads}), counts=loads.reports())


def start(crowd: Crowd, victims: list[int], writers: list[int], echo: str) -> list[int]:
    """Start what does not depend on the version of cpusets; return the pids of the bound tasks."""
    bound = [crowd.add("bound task", partial(loads.bound, cpu), 0.2) for cpu in victims]
    crowd.add("taskset", partial(loads.taskset, bound), 0.5)
    crowd.add("affinity", partial(loads.wander, bound), 0.3)
    everywhere: dict[str, tuple[Callable[[], Step], float]] = {
        "timer": (loads.timers, 0.05),
        "work on each CPU": (loads.work_everywhere, 0.5),
        "reader: membarrier": (loads.membarrier, 0.3),
        "reader: static key": (loads.static_key, 0.5),
        "reader: cgroup move": (loads.cgroup_move, 0.3),
        "disk": (loads.disk, 0.2),
        "interrupts": (loads.interrupts, 0.2),
        "online writer": (partial(loads.online_writer, writers), 0.3),
    }
    for name, (setup, pause) in everywhere.items():
        crowd.add(name, setup, pause)
    for core in machine.cores() if loads.QUEUED_DISK.exists() else ():
        crowd.add(QUEUE_LOAD, partial(loads.queued, core[len(core) // 2]), 0.05)
    if echo:
        address, _, port = echo.rpartition(":")
        crowd.add("network", partial(loads.network, address, int(port)), 0.2)
    return bound


def add_deadline(crowd: Crowd, lasting: bool) -> None:
    """Start a load of SCHED_DEADLINE, of one task that lasts or of some that end, but not with PREEMPT_RT.

    A task that has ended keeps its bandwidth until its period is over. If its CPU is offline by then,
    inactive_task_timer() of stock 6.12 and 7.3 divides by the number of active CPUs of a root domain that has
    none. That is an oops on x86-64, where the task always lasts for this reason.

    With PREEMPT_RT, a task may run out of its bandwidth while it must not migrate. If its CPU is about to go
    offline, dl_task_timer() of stock 6.12 moves it all the same, and the CPU waits for it without end.
    """
    if not machine.realtime():
        lasting = lasting or platform.machine() == "x86_64"
        crowd.add(DEADLINE_LOAD, loads.lasting_deadline if lasting else loads.deadline, 0.5)


@contextmanager
def version_2(crowd: Crowd, bound: list[int], core: list[int], loses: list[int]) -> Iterator[None]:
    """Cpusets of version 2: a partition of one core that changes, and one with tasks that loses its CPUs."""
    partition = Cpuset("stress-partition", core, "root")
    member = Cpuset("stress-member", loses)
    for pid in bound[:2]:
        member.move(pid)
    choices = [core, core[:3], core[:1] + core[-1:]]
    # Not isolated: for that, stock 6.12 creates workers under cpuset_mutex. kthreadd may then wait for the
    # task that moves between cgroups, which waits for cpuset_mutex.
    step = partial(loads.churn_partition, partition.folder, choices, ["root", "member"])
    crowd.add("cpuset churn", step, 0.7)
    add_deadline(crowd, lasting=False)
    yield
    for made in (partition, member):
        made.remove()


@contextmanager
def version_1(crowd: Crowd, bound: list[int], core: list[int], loses: list[int]) -> Iterator[None]:
    """Cpusets of version 1."""
    cpusets.mount_version_1()
    for name, choices in (("keeps", [core, core[:2]]), ("loses", [loses, loses[:1]])):
        # 6.12 lets no CPU go that is the last one of a root domain, because of its fair server.
        folder = cpusets.make_version_1(name, choices[0], balanced=name == "keeps")
        crowd.add("cpuset churn", partial(loads.churn_version_1, folder, choices, bound), 0.7)
    # With an unbalanced root cpuset, CPUs are in a root domain which counts no fair servers.
    add_deadline(crowd, lasting=True)
    yield
    cpusets.unmount_version_1()


class Run:
    """The switches of one phase."""

    def __init__(self, echo: str) -> None:
        machine.all_on()
        self.echo = echo
        self.mode = "on"
        threads = max(map(len, machine.cores()))
        loads.make_queued_disk(loads.queues_of(threads, len(present())))
        self.modes = [mode for mode in MODES if not mode.isdigit() or int(mode) <= threads]
        self.log = KernelLog()
        self.victims = machine.secondaries()
        self.writers = [self.victims[2], self.victims[-2]]
        record(
            "machine",
            **machine.settings(),
            realtime=machine.realtime(),
            present=present(),
            victims=self.victims,
            writers=self.writers,
            threads={cpu: thread for core in machine.cores() for thread, cpu in enumerate(core)},
        )

    def phase(self, name: str, switches: int) -> None:
        """Switch under load, with the cpusets of one version around."""
        surround = {"version 2": version_2, "version 1": version_1}[name]
        primary = next(cpu for cpu in reversed(present()) if cpu not in self.victims)
        core = next(core for core in machine.cores() if primary in core)
        crowd = Crowd()
        bound = start(crowd, self.victims, self.writers, self.echo)
        with surround(crowd, bound, core, self.victims[:2]):
            time.sleep(2)
            for number in range(switches):
                self.one(name, number)
            crowd.end()
        self.quiet(name)

    def one(self, phase: str, number: int) -> None:
        """One switch, to a mode other than the last one, with a chunk of any size."""
        chunk = random.choice([64, 64, 4, 4, 3, 1])
        write(CHUNK, chunk)
        others = [mode for mode in self.modes if mode != self.mode]
        mode = self.mode = self.modes[number % len(self.modes)] if number < 8 else random.choice(others)
        self.log.lines()
        facts = switch(mode)
        record("switch", phase=phase, number=number, chunk=chunk, **facts, log=refusals(self.log.lines()))
        time.sleep(random.random() / 2)

    def quiet(self, phase: str) -> None:
        """Without load and cpusets: what a switch in chunks of four costs, its order, and the domains."""
        for cpu in self.writers:
            write(CPUS / f"cpu{cpu}/online", 1)
        machine.all_on()
        write(CHUNK, 4)
        counter = Rendezvous()
        parking = Parking()
        facts = switch("off", counter) | parking.facts()
        record("quiet", phase=phase, chunk=4, **facts, domains=machine.domains())
        record("quiet", phase=phase, chunk=4, **switch("on", counter), domains=machine.domains())


def refusals(lines: list[str]) -> list[str]:
    """Return what the kernel said about CPUs that did not come or go."""
    return [line for line in lines if "cannot go" in line or "one by one" in line]


def main() -> None:
    """Half of the switches with each version of cpusets."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--switches", type=int, default=200)
    parser.add_argument("--echo", default="", help="HOST:PORT of a server that sends back what it gets")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    shutil.rmtree(loads.REPORTS, ignore_errors=True)
    loads.REPORTS.mkdir()
    run = Run(options.echo)
    half = options.switches // 2
    run.quiet("before")
    run.phase("version 2", options.switches - half)
    run.phase("version 1", half)
    record("end", online=machine.online())


if __name__ == "__main__":
    main()
