"""The drivers that perform an operation, and which of them a run uses."""

from __future__ import annotations

import abc
import os
from pathlib import Path

from hotplug_host.child import ChildResult, Watch, run_command, run_function
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.operations import CORES_ON, CPUS, SMT
from hotplug_host.programs import find_program
from hotplug_host.sysfs import SMT_CONTROL, Sysfs
from hotplug_host.timing.operation import Machine, Operation, SmtLevel
from hotplug_host.topology import cpu_file, read_control, read_online

AUTO, PPC64_CPU, CONTROL, CPU_ONLINE = "auto", "ppc64_cpu", "smt-control", "cpu-online"
VIA_CHOICES = (AUTO, PPC64_CPU, CONTROL, CPU_ONLINE)
#: What can do each kind of operation.
VIA_OF = {SMT: (AUTO, PPC64_CPU, CONTROL), CORES_ON: (AUTO, PPC64_CPU, CPU_ONLINE), CPUS: (AUTO, CPU_ONLINE)}

#: smt/control values with which the file does not switch anything, and what to tell the user.
UNUSABLE_CONTROL = {
    "forceoff": (
        "SMT is forced off until the next boot (smt/control says forceoff)",
        "boot without nosmt=force and do not write forceoff",
    ),
    "notsupported": (
        "this machine has no SMT (smt/control says notsupported)",
        "measure on a machine with more than one thread per core",
    ),
}


class Driver(abc.ABC):
    """One way to perform operations."""

    #: The value of "driver" in an iteration's record.
    name: str

    @property
    def task(self) -> str:
        """Return the kernel's name for the task that writes: of a forked child, this process's own."""
        return Path("/proc/self/comm").read_text(encoding="utf-8", errors="replace").strip()

    @abc.abstractmethod
    def perform(self, operation: Operation, machine: Machine, watch: Watch) -> ChildResult:
        """Perform the operation in a child process and time it."""


class Ppc64CpuDriver(Driver):
    """Calls ppc64_cpu, what operators type. The time includes starting the program."""

    name = PPC64_CPU
    task = PPC64_CPU

    def __init__(self, program: str) -> None:
        self.program = program

    def perform(self, operation: Operation, machine: Machine, watch: Watch) -> ChildResult:
        """Run `ppc64_cpu --smt=LEVEL` or `--cores-on=K`."""
        return run_command([self.program, operation.ppc64_cpu_option(machine)], watch)


class SmtControlDriver(Driver):
    """Switches by writing /sys/devices/system/cpu/smt/control. The time is that of the write alone."""

    name = CONTROL

    def __init__(self, fs: Sysfs) -> None:
        self.fs = fs

    def perform(self, operation: Operation, machine: Machine, watch: Watch) -> ChildResult:
        """Write the level."""
        assert isinstance(operation, SmtLevel)  # noqa: S101 - see VIA_OF
        label = operation.label(machine)
        return run_function(lambda: self.fs.write(SMT_CONTROL, label), watch)


class CpuOnlineDriver(Driver):
    """Writes the `online` files of the CPUs that have to change, one by one. The time is of all of them."""

    name = CPU_ONLINE

    def __init__(self, fs: Sysfs) -> None:
        self.fs = fs

    def perform(self, operation: Operation, machine: Machine, watch: Watch) -> ChildResult:
        """Write to each CPU that is not as the operation leaves it, ending at the first that refuses."""
        target, online = operation.target(machine), read_online(self.fs)
        writes = [(cpu, "1") for cpu in operation.order(target - online, online=True)]
        writes += [(cpu, "0") for cpu in operation.order(online - target, online=False)]
        return run_function(lambda: self._write(writes), watch)

    def _write(self, writes: list[tuple[int, str]]) -> None:
        for cpu, value in writes:
            try:
                self.fs.write(cpu_file(cpu), value)
            except OSError as error:
                raise OSError(error.errno, error.strerror, f"cpu{cpu}/online") from error


def choose_driver(kind: str, via: str, fs: Sysfs) -> Driver:
    """Return the driver for --via; ToolError when the host has not got it, or it cannot do this kind.

    auto takes ppc64_cpu where it is installed, because that is what operators wait for.
    """
    if via not in VIA_OF[kind]:
        raise ToolError(
            f"--via {via} cannot do {kind}= operations",
            f"use one of {', '.join(VIA_OF[kind])}",
            ExitCode.USAGE,
        )
    if kind == SMT:
        return _smt_driver(via, fs)
    program = None if kind == CPUS or via == CPU_ONLINE else _ppc64_cpu(via)
    return CpuOnlineDriver(fs) if program is None else Ppc64CpuDriver(program)


def _smt_driver(via: str, fs: Sysfs) -> Driver:
    control = read_control(fs)
    if control in UNUSABLE_CONTROL:
        raise ToolError(*UNUSABLE_CONTROL[control], ExitCode.ENVIRONMENT)
    has_control = control is not None and control != "notimplemented"
    if via == CONTROL and not has_control:
        raise ToolError(
            f"{fs.path(SMT_CONTROL)} is not there or not implemented by this kernel",
            "use --via ppc64_cpu, or a kernel with CONFIG_HOTPLUG_SMT (on POWER 6.6 and later)",
            ExitCode.ENVIRONMENT,
        )
    program = None if via == CONTROL else _ppc64_cpu(via)
    if program is not None:
        return Ppc64CpuDriver(program)
    if has_control:
        return SmtControlDriver(fs)
    raise ToolError(
        f"nothing to switch SMT with: ppc64_cpu is not installed and {fs.path(SMT_CONTROL)} is not usable",
        "install powerpc-utils, or boot a kernel with CONFIG_HOTPLUG_SMT",
        ExitCode.ENVIRONMENT,
    )


def _ppc64_cpu(via: str) -> str | None:
    program = find_program("ppc64_cpu")
    if via == PPC64_CPU and program is None:
        raise ToolError(
            "ppc64_cpu is not installed", "install powerpc-utils, or use another --via", ExitCode.ENVIRONMENT
        )
    return program


def require_root(fs: Sysfs) -> None:
    """Refuse to run as another user than root on a real host (ToolError, ENVIRONMENT)."""
    if fs.is_host and os.geteuid() != 0:
        raise ToolError("switching CPUs needs root", "run it again with sudo", ExitCode.ENVIRONMENT)
