"""Programs of the host: where they are, how ppc64_cpu switches SMT, and what reports its level."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hotplug_host.sysfs import SMT_ACTIVE, SMT_CONTROL, Sysfs

#: A connection for one command may have a PATH without them.
ADMINISTRATORS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
ONE_BY_ONE = "cpuN/online"
BY_CONTROL = "smt/control"
#: smt/control values with which ppc64_cpu goes by cpuN/online: the write ends with ENODEV.
NO_CONTROL = (None, "notimplemented", "notsupported")


@dataclass(frozen=True)
class Ppc64Cpu:
    """The host's ppc64_cpu: its package's version, None where no package manager knows it, and its way."""

    path: str
    version: str | None
    #: Whether this program knows smt/control at all.
    knows_control: bool
    #: BY_CONTROL or ONE_BY_ONE, on this kernel.
    switches_by: str


@dataclass(frozen=True)
class Smt:
    """What switches SMT here, smt/control or ppc64_cpu, and the level and activity it reports."""

    interface: str | None
    level: str | None
    active: str | None


def find_program(name: str) -> str | None:
    """Return the path of a program, also where root's PATH lacks the directories for administrators."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *ADMINISTRATORS]))


def read_ppc64_cpu(control: str | None) -> Ppc64Cpu | None:
    """Return what the host's ppc64_cpu is and does when smt/control says CONTROL; None when it has none.

    `ppc64_cpu --version` has said 1.2 for many releases. What tells is whether the name of smt/control is in
    the program: since https://github.com/ibm-power-utilities/powerpc-utils/pull/90 it writes the number of
    threads there, and goes one by one only when that ends with ENOENT or ENODEV.
    """
    path = find_program("ppc64_cpu")
    if path is None:
        return None
    try:
        knows = SMT_CONTROL.encode() in Path(path).read_bytes()
    except OSError:
        knows = False
    by_control = knows and control not in NO_CONTROL
    return Ppc64Cpu(path, _package_version(path), knows, BY_CONTROL if by_control else ONE_BY_ONE)


def read_smt(fs: Sysfs) -> Smt:
    """Ask smt/control, or ppc64_cpu where the kernel does not switch by it."""
    control, active = fs.read_optional(SMT_CONTROL), fs.read_optional(SMT_ACTIVE)
    # POWER before 6.6 has the file, and it does nothing there.
    if control not in (None, "notimplemented"):
        return Smt(BY_CONTROL, control, active)
    program = find_program("ppc64_cpu")
    if program is None:
        return Smt(None, None, active)
    return Smt("ppc64_cpu", smt_from_ppc64_cpu(output_of([program, "--smt"]) or ""), active)


def smt_from_ppc64_cpu(output: str) -> str | None:
    """Return the level that `ppc64_cpu --smt` printed, "mixed" when cores differ, None if it printed none."""
    if "SMT is off" in output:
        return "off"
    levels = set(re.findall(r"SMT=(\d+)", output))
    if len(levels) > 1:
        return "mixed"
    level = next(iter(levels), None)
    return "off" if level == "1" else level


def output_of(command: list[str]) -> str | None:
    """Return what a command prints, None when it cannot be run or fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError:
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None


def _package_version(path: str) -> str | None:
    for name, arguments in (
        ("rpm", ["-q", "--qf", "%{VERSION}-%{RELEASE}", "-f", path]),
        ("dpkg-query", ["-W", "-f=${Version}", "powerpc-utils"]),
    ):
        program = find_program(name)
        version = output_of([program, *arguments]) if program else None
        if version:
            return version
    return None
