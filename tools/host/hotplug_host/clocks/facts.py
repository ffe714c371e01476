"""What a host shows of its clocks: clocksources, TSC, command line, kernel log, hypervisor."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hotplug_host.clocks import kernellog
from hotplug_host.clocks.kernellog import TSC, ClockLog
from hotplug_host.clocksource import Clocksources, read_clocksources
from hotplug_host.cpulist import format_cpulist
from hotplug_host.hostinfo import HYPERVISOR_COMPATIBLE, HostInfo, read_host
from hotplug_host.sysfs import Sysfs
from hotplug_host.topology import read_online

#: What /proc/cpuinfo may say of a CPU's TSC; the two that make it one that can be relied on; and the one by
#: which a platform (VMware, Hyper-V, confidential guests) vouches for it.
TSC_FLAGS = (
    TSC,
    "rdtscp",
    "constant_tsc",
    "nonstop_tsc",
    "nonstop_tsc_s3",
    "tsc_known_freq",
    "tsc_reliable",
    "tsc_adjust",
)
INVARIANT = frozenset(("constant_tsc", "nonstop_tsc"))
RELIABLE = "tsc_reliable"
#: Words of the command line that choose clocks, or say what to think of them.
_BOOT_WORD = re.compile(
    r"(?:tsc|hpet|clocksource|clock|pmtmr|tsc_early_khz)=.*|clocksource\.[\w.]+=.*"
    r"|notsc|nohpet|acpi_pm_good|no-kvmclock(?:-vsyscall)?"
)
_XEN = "/sys/hypervisor/type"
_DMI = "/sys/class/dmi/id/sys_vendor"
_PSERIES = re.compile(r"^platform\s*:\s*pSeries$", re.MULTILINE)


@dataclass(frozen=True)
class Facts:
    """One host's clocks as it shows them.

    `tsc_flags` are those that all CPUs have; `hypervisor` is None on bare metal; `boot_words` are the words
    of the command line that are about clocks.
    """

    host: HostInfo
    cpus: str
    hypervisor: str | None
    clocksources: Clocksources
    tsc_flags: tuple[str, ...]
    boot_words: tuple[str, ...]
    log: ClockLog

    @property
    def invariant_tsc(self) -> bool:
        """Whether the TSC keeps its rate at every frequency and does not stop in idle."""
        return set(self.tsc_flags) >= INVARIANT

    @property
    def reliable_tsc(self) -> bool:
        """Whether the platform vouches for the TSC; the kernel's watchdog leaves it alone then."""
        return RELIABLE in self.tsc_flags


def read_facts(fs: Sysfs, boot_method: str, emulated: bool) -> Facts:
    """Read them. What the host may not show itself is given: how it was booted, and that it is EMULATED."""
    cpuinfo = fs.read_optional("/proc/cpuinfo") or ""
    host = read_host(fs, boot_method, emulated)
    lines = kernellog.read_lines(fs)
    return Facts(
        host=host,
        cpus=format_cpulist(read_online(fs)),
        hypervisor=_hypervisor(fs, cpuinfo, kernellog.hypervisor(lines or ())),
        clocksources=read_clocksources(fs),
        tsc_flags=tsc_flags(cpuinfo),
        boot_words=boot_words(host.cmdline),
        log=kernellog.parse(lines),
    )


def tsc_flags(cpuinfo: str) -> tuple[str, ...]:
    """Return the TSC's flags that every CPU in /proc/cpuinfo's text has."""
    listed = {line for line in cpuinfo.splitlines() if re.match(r"flags\s*:", line)}
    common = frozenset.intersection(*(frozenset(line.split()) for line in listed)) if listed else frozenset()
    return tuple(flag for flag in TSC_FLAGS if flag in common)


def boot_words(cmdline: str) -> tuple[str, ...]:
    """Return the words of a kernel command line that are about clocks, in order."""
    return tuple(word for word in cmdline.split() if _BOOT_WORD.fullmatch(word))


def _hypervisor(fs: Sysfs, cpuinfo: str, logged: str | None) -> str | None:
    """Return the best name that the host has for what it runs under; None on bare metal."""
    if _PSERIES.search(cpuinfo):
        compatible = " ".join(fs.read_optional(name) or "" for name in HYPERVISOR_COMPATIBLE)
        if "kvm" in compatible:
            return "KVM"
        return "QEMU" if "emulated by qemu" in cpuinfo else "PowerVM"
    if not re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE):
        return None
    named = fs.read_optional(_XEN) or logged or fs.read_optional(_DMI)
    return named or ("QEMU" if "QEMU" in cpuinfo else "unknown")
