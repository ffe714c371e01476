"""The operations that get timed, the two drivers that perform them, and the path a switch took."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from hotplug_timer.errors import ExitCode, ToolError
from hotplug_timer.target.child import ChildResult, run_command, run_function
from hotplug_timer.target.signals import StopRequest
from hotplug_timer.target.sysfs import SMT_CONTROL, Sysfs
from hotplug_timer.target.topology import Topology, control_label, read_control

VIA_CHOICES = ("auto", "ppc64_cpu", "smt-control")
PATH_CONTROL = "smt/control"
PATH_PER_CPU = "per-cpu"

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


@dataclass(frozen=True)
class Operation:
    """One SMT level to switch to: "off", "on" or a number of threads per core."""

    level: str

    @property
    def name(self) -> str:
        """Return the operation as written on the command line and in results."""
        return f"smt={self.level}"

    def threads(self, threads_per_core: int) -> int:
        """Return how many threads of each core are online afterwards."""
        if self.level == "off":
            return 1
        return threads_per_core if self.level == "on" else int(self.level)


SMT_OFF = Operation("off")
SMT_ON = Operation("on")


def parse_operation(text: str) -> Operation:
    """Return the operation TEXT names; ToolError (USAGE) when there is none such."""
    kind, _, level = text.partition("=")
    number = level.isascii() and level.isdigit()
    if kind != "smt" or not (level in ("off", "on") or (number and int(level) > 0)):
        raise ToolError(
            f"unknown operation {text!r}", "use smt=off, smt=on or smt=K, K threads per core", ExitCode.USAGE
        )
    return Operation(str(int(level)) if number else level)


def check_levels(operations: tuple[Operation, ...], topology: Topology, machine: str) -> None:
    """Refuse SMT levels this machine lacks (ToolError, USAGE), saying which it has."""
    threads = topology.threads_per_core
    if threads == 1:
        raise ToolError(
            "this machine has one thread per core, so there is no SMT to switch",
            "measure on a machine with SMT",
            ExitCode.USAGE,
        )
    # Only powerpc selects SMT_NUM_THREADS_DYNAMIC: elsewhere it is one thread or all of them.
    levels = list(range(1, threads + 1)) if machine.startswith("ppc64") else [1, threads]
    for operation in operations:
        if operation.threads(threads) not in levels:
            raise ToolError(
                f"{operation.name}: this machine has no such SMT level",
                f"it has {', '.join(map(str, levels))} threads per core (off is 1, on is {threads})",
                ExitCode.USAGE,
            )


def from_threads(cycle: tuple[Operation, ...], position: int, threads_per_core: int) -> int:
    """Return the threads per core from which cycle[position] starts.

    That is what the operation before it in the cycle leaves, so that every iteration, the first one
    too, makes the same transition; where that already is the state asked for, the far end instead.
    """
    target = cycle[position].threads(threads_per_core)
    before = cycle[position - 1].threads(threads_per_core)
    if before != target:
        return before
    return 1 if target == threads_per_core else threads_per_core


class Ppc64CpuDriver:
    """Switches with `ppc64_cpu --smt=LEVEL`, what operators type."""

    name = "ppc64_cpu"

    def __init__(self, program: str) -> None:
        self.program = program

    def switch(self, threads: int, threads_per_core: int, timeout_s: float, stop: StopRequest) -> ChildResult:
        """Switch to THREADS per core; the time includes starting the program."""
        level = control_label(threads, threads_per_core)
        return run_command([self.program, f"--smt={level}"], timeout_s, stop)


class SmtControlDriver:
    """Switches by writing /sys/devices/system/cpu/smt/control."""

    name = "smt-control"

    def __init__(self, fs: Sysfs) -> None:
        self.fs = fs

    def switch(self, threads: int, threads_per_core: int, timeout_s: float, stop: StopRequest) -> ChildResult:
        """Switch to THREADS per core; the time is that of the write alone."""
        level = control_label(threads, threads_per_core)
        return run_function(lambda: self.fs.write(SMT_CONTROL, level), timeout_s, stop)


def choose_driver(via: str, fs: Sysfs) -> Ppc64CpuDriver | SmtControlDriver:
    """Return the driver for --via; ToolError when the host has not got it.

    auto takes ppc64_cpu where it is installed, because that is what operators wait for.
    """
    control = read_control(fs)
    if control in UNUSABLE_CONTROL:
        raise ToolError(*UNUSABLE_CONTROL[control], ExitCode.ENVIRONMENT)
    has_control = control is not None and control != "notimplemented"
    program = shutil.which("ppc64_cpu")
    if via == "ppc64_cpu" and program is None:
        raise ToolError(
            "ppc64_cpu is not installed",
            "install powerpc-utils, or use --via smt-control",
            ExitCode.ENVIRONMENT,
        )
    if via == "smt-control" and not has_control:
        raise ToolError(
            f"{fs.path(SMT_CONTROL)} is not there or not implemented by this kernel",
            "use --via ppc64_cpu, or a kernel with CONFIG_HOTPLUG_SMT (on POWER 6.6 and later)",
            ExitCode.ENVIRONMENT,
        )
    if via != "smt-control" and program is not None:
        return Ppc64CpuDriver(program)
    if has_control:
        return SmtControlDriver(fs)
    raise ToolError(
        f"nothing to switch SMT with: ppc64_cpu is not installed and {fs.path(SMT_CONTROL)} is not usable",
        "install powerpc-utils, or boot a kernel with CONFIG_HOTPLUG_SMT",
        ExitCode.ENVIRONMENT,
    )


def detect_path(before: str | None, after: str | None, threads: int, threads_per_core: int) -> str | None:
    """Return the path a completed switch took, from what smt/control said before and after.

    Only a write to smt/control changes what it says; the per-CPU `online` files leave it alone.
    None when it says something that neither explains.
    """
    if before == after:
        return PATH_PER_CPU
    return PATH_CONTROL if after == control_label(threads, threads_per_core) else None


def require_root(fs: Sysfs) -> None:
    """Refuse to run as another user than root on a real host (ToolError, ENVIRONMENT)."""
    if fs.is_host and os.geteuid() != 0:
        raise ToolError("switching SMT needs root", "run it again with sudo", ExitCode.ENVIRONMENT)
