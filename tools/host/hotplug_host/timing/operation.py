"""The operations that get timed: what each is called, and which CPUs it leaves online."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field, replace
from typing import ClassVar

from hotplug_host.cpulist import format_cpulist, parse_cpulist
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.hostinfo import read_machine
from hotplug_host.operations import ALL_CORES, CORES_ON, CPUS, OFF, ON, SMT, Spec, name_of
from hotplug_host.sysfs import Sysfs
from hotplug_host.topology import Topology, control_label, cpu_file, describe_cpus

PATH_CONTROL = "smt/control"
PATH_PER_CPU = "per-cpu"


@dataclass(frozen=True)
class Machine:
    """The CPUs a run works on. `baseline` are those online before it."""

    topology: Topology
    baseline: frozenset[int]

    @property
    def active_cores(self) -> tuple[tuple[int, ...], ...]:
        """Return the cores that take part, each with its present CPUs in thread order."""
        return self.topology.active_cores(self.baseline)


@dataclass(frozen=True)
class Operation(abc.ABC):
    """One switch. What it leaves online depends on the machine alone, not on what was before.

    `argument` is what follows "=" in its name; `timeout_s` is how many seconds it may take, None for the
    run's --timeout.
    """

    argument: str
    timeout_s: float | None = field(default=None, compare=False)
    #: SMT, CORES_ON or CPUS.
    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """Return the operation as in results: as on the command line, without the time limit."""
        return name_of(self.kind, self.argument)

    @abc.abstractmethod
    def check(self, machine: Machine, fs: Sysfs) -> None:
        """Refuse what this machine cannot do (ToolError), saying what it can."""

    @abc.abstractmethod
    def target(self, machine: Machine) -> frozenset[int]:
        """Return the CPUs that are online afterwards."""

    @abc.abstractmethod
    def far_end(self, machine: Machine) -> Operation:
        """Return the operation that an operation alone in its cycle starts from."""

    @abc.abstractmethod
    def ppc64_cpu_option(self, machine: Machine) -> str:
        """Return what to give ppc64_cpu for it."""

    def path(self, before: str | None, after: str | None, machine: Machine) -> str | None:
        """Return the path a completed switch took, from what smt/control said before and after it.

        None when it says something that the switch does not explain.
        """
        del machine
        return PATH_PER_CPU if before == after else None

    def order(self, cpus: frozenset[int], online: bool) -> list[int]:
        """Return CPUs in the order in which they go through their `online` files."""
        del online
        return sorted(cpus)


@dataclass(frozen=True)
class SmtLevel(Operation):
    """An SMT level: "off", "on" or a number of threads per core."""

    kind = SMT

    @property
    def level(self) -> str:
        """Return the level as the user gives it."""
        return self.argument

    def threads(self, threads_per_core: int) -> int:
        """Return how many threads of each core are online afterwards."""
        if self.level == OFF:
            return 1
        return threads_per_core if self.level == ON else int(self.level)

    def check(self, machine: Machine, fs: Sysfs) -> None:
        """Refuse a level this machine lacks (ToolError, USAGE)."""
        threads = machine.topology.threads_per_core
        if threads == 1:
            raise _usage(
                "this machine has one thread per core, so there is no SMT to switch",
                "measure on a machine with SMT",
            )
        # Only powerpc selects SMT_NUM_THREADS_DYNAMIC: elsewhere it is one thread or all of them.
        levels = list(range(1, threads + 1)) if read_machine(fs).startswith("ppc64") else [1, threads]
        if self.threads(threads) not in levels:
            raise _usage(
                f"{self.name}: this machine has no such SMT level",
                f"it has {', '.join(map(str, levels))} threads per core (off is 1, on is {threads})",
            )

    def target(self, machine: Machine) -> frozenset[int]:
        """Return the first threads of every core that takes part."""
        threads = self.threads(machine.topology.threads_per_core)
        return machine.topology.expected_online(threads, machine.baseline)

    def far_end(self, machine: Machine) -> SmtLevel:
        """Return SMT off for SMT on, and SMT on for all else."""
        threads = machine.topology.threads_per_core
        return SMT_OFF if self.threads(threads) == threads else SMT_ON

    def label(self, machine: Machine) -> str:
        """Return what smt/control says once it is done."""
        threads = machine.topology.threads_per_core
        return control_label(self.threads(threads), threads)

    def ppc64_cpu_option(self, machine: Machine) -> str:
        """Return what to give ppc64_cpu for it."""
        return f"--smt={self.label(machine)}"

    def path(self, before: str | None, after: str | None, machine: Machine) -> str | None:
        """Return the path taken: only a write to smt/control changes what that says."""
        if before == after:
            return PATH_PER_CPU
        return PATH_CONTROL if after == self.label(machine) else None


SMT_OFF = SmtLevel(OFF)
SMT_ON = SmtLevel(ON)


@dataclass(frozen=True)
class CoresOn(Operation):
    """A number of cores with CPUs online, as of `ppc64_cpu --cores-on`: the last cores go first."""

    kind = CORES_ON

    def count(self, machine: Machine) -> int:
        """Return how many cores have CPUs online afterwards."""
        return len(machine.active_cores) if self.argument == ALL_CORES else int(self.argument)

    def check(self, machine: Machine, fs: Sysfs) -> None:
        """Refuse more cores than take part, and states that ppc64_cpu does not come back to."""
        del fs
        cores = machine.active_cores
        if self.count(machine) > len(cores):
            raise _usage(
                f"{self.name}: {len(cores)} cores are online, and those offline take no part",
                f"ask for 1 to {len(cores)}, or bring more cores online before the run",
            )
        if len(cores) == 1:
            raise _usage("one core is online, so there is none to switch", "bring more online before the run")
        before = [machine.baseline.intersection(core) for core in cores]
        threads = {len(cpus) for cpus in before}
        if len(threads) > 1 or any(
            not cpus.issuperset(core[: len(cpus)]) for cpus, core in zip(before, cores)
        ):
            raise _usage(
                "the cores differ in which of their threads are online", "switch all to one SMT level first"
            )
        idle = [core for core in machine.topology.cores if core not in cores]
        if idle and min(idle) < max(cores):
            raise _usage(
                f"the core of {describe_cpus(frozenset(min(idle)))} is offline and comes before cores online,"
                " so other cores would come back than went",
                "bring it online before the run",
            )

    def target(self, machine: Machine) -> frozenset[int]:
        """Return what was online before of the first cores."""
        kept = {cpu for core in machine.active_cores[: self.count(machine)] for cpu in core}
        return machine.baseline.intersection(kept)

    def far_end(self, machine: Machine) -> CoresOn:
        """Return one core for all cores, and all cores for all else."""
        everything = self.count(machine) == len(machine.active_cores)
        return replace(self, argument="1" if everything else ALL_CORES)

    def ppc64_cpu_option(self, machine: Machine) -> str:
        """Return what to give ppc64_cpu for it. Its own "all" means the cores wholly offline as well."""
        return f"--cores-on={self.count(machine)}"

    def order(self, cpus: frozenset[int], online: bool) -> list[int]:
        """Return CPUs in ppc64_cpu's order: offline from the last core's last thread."""
        return sorted(cpus, reverse=not online)


@dataclass(frozen=True)
class CpuList(Operation):
    """CPUs that go offline, or come back online, one by one in the order of their numbers."""

    kind = CPUS

    @property
    def cpus(self) -> frozenset[int]:
        """Return the CPUs of the list."""
        return parse_cpulist(self.argument.rpartition(":")[0])

    @property
    def online(self) -> bool:
        """Whether they come online."""
        return self.argument.endswith(f":{ON}")

    def check(self, machine: Machine, fs: Sysfs) -> None:
        """Refuse CPUs that cannot be taken offline (ToolError, USAGE), naming them."""
        cpus = self.cpus
        if cpus - machine.baseline:
            raise _usage(
                f"{self.name}: {describe_cpus(cpus - machine.baseline)} not online before the run",
                f"bring them online first; online are {format_cpulist(machine.baseline)}",
            )
        if cpus == machine.baseline:
            raise _usage(f"{self.name} would leave no CPU online", "leave one out")
        fixed = frozenset(cpu for cpu in cpus if not fs.exists(cpu_file(cpu)))
        if fixed:
            raise _usage(
                f"{self.name}: this kernel cannot take {describe_cpus(fixed)} offline", "leave them out"
            )

    def target(self, machine: Machine) -> frozenset[int]:
        """Return the CPUs online before the run, with or without these."""
        return machine.baseline if self.online else machine.baseline - self.cpus

    def far_end(self, machine: Machine) -> CpuList:
        """Return the way back."""
        del machine
        return replace(self, argument=f"{format_cpulist(self.cpus)}:{OFF if self.online else ON}")

    def ppc64_cpu_option(self, machine: Machine) -> str:
        """Refuse: ppc64_cpu switches cores and SMT levels only."""
        raise NotImplementedError(self.name)


_CLASSES = {one.kind: one for one in (SmtLevel, CoresOn, CpuList)}


def operation_of(spec: Spec) -> Operation:
    """Return the operation that a user asked for."""
    return _CLASSES[spec.kind](spec.argument, spec.timeout_s)


def _usage(message: str, hint: str) -> ToolError:
    return ToolError(message, hint, ExitCode.USAGE)
