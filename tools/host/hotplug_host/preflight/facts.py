"""What a host is like, as far as switching its SMT, timing that, or trying kernels on it depends on it.

Read-only, and it never fails: what cannot be read is None, which a judgement can name.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotplug_host.clocksource import AVAILABLE, CURRENT
from hotplug_host.cpulist import format_cpulist, parse_cpulist
from hotplug_host.errors import ToolError
from hotplug_host.holder import LOCK, LOCK_KEYS, read_applied, read_record
from hotplug_host.hostinfo import read_machine, read_os_release, read_rcu
from hotplug_host.lease import describe_held
from hotplug_host.preflight.hardware import Hardware, read_hardware
from hotplug_host.preflight.installed import Installed, read_installed
from hotplug_host.preflight.lpar import Platform, read_platform
from hotplug_host.preflight.system import CRASH_LOADED, FADUMP, read_mounts
from hotplug_host.preflight.workloads import Workloads, read_workloads
from hotplug_host.programs import Ppc64Cpu, Smt, find_program, read_ppc64_cpu, read_smt
from hotplug_host.sysfs import BOOT_ID, BULK_CHUNK, CPU_DIR, Sysfs
from hotplug_host.topology import read_control, read_topology
from hotplug_host.udev import cpu_rules

TAG = re.compile(r"(?:^|\s)hotplug_acceleration\.variant=(\S+)")

#: Services that change what a switch or a boot leaves: the SMT level, or where interrupts and tasks run.
SERVICES = ("irqbalance", "numad", "smtstate", "tuned")


@dataclass(frozen=True)
class Cpus:
    """CPU lists as the kernel writes them; `secondary` are those online that smt=off takes."""

    present: str | None
    online: str | None
    all_but_first: str
    secondary: str
    threads_per_core: int | None
    isolated: str
    nohz_full: str


@dataclass(frozen=True)
class Kexec:
    """What trying another kernel needs; `crash_loaded` is that of kdump.

    `fadump` is 1 where the firmware (POWER) keeps memory for a dump instead.
    """

    path: str | None
    loaded: int | None
    load_disabled: int | None
    crash_loaded: int | None
    lockdown: str
    fadump: int | None = None


@dataclass(frozen=True)
class Clocksource:
    """The clocksource in use, those there are, and the record of one that was applied for a while."""

    current: str | None
    available: tuple[str, ...]
    record: dict[str, Any] | None = None


@dataclass(frozen=True)
class Facts:
    """One host; sizes in bytes."""

    euid: int
    python: str
    machine: str
    release: str | None
    boot_id: str | None
    cmdline: str
    variant: str | None
    cpus: Cpus
    smt: Smt
    platform: Platform
    kexec: Kexec
    ppc64_cpu: Ppc64Cpu | None
    rcu: dict[str, str]
    systemd_run: str | None
    free_bytes: int
    boot_free_bytes: int | None
    lock: dict[str, Any] | None
    clocksource: Clocksource = field(default_factory=lambda: Clocksource(None, ()))
    files: dict[str, bool] = field(default_factory=dict)
    workloads: Workloads = field(default_factory=lambda: Workloads((), (), ()))
    deployment: dict[str, Any] | None = None
    watchdog: str | None = None
    os_release: dict[str, str] = field(default_factory=dict)
    applied: dict[str, Any] | None = None
    """The state before a switch that a run did and left."""
    services: tuple[str, ...] = ()
    """Those of SERVICES that start with the host."""
    boot_read_only: bool = False
    hardware: Hardware = field(default_factory=Hardware)
    holder: str = ""
    """Who holds the host, and whether that run is alive; empty where it is free."""
    bulk_chunk: int | None = None
    """How many CPUs the patched kernel switches at once; None on a kernel without the patches."""
    installed: tuple[Installed, ...] = ()
    """The installed kernels that somebody asked for."""
    boot_initrd_bytes: int = 0
    """The size of the largest initial RAM disk in /boot."""
    cpu_rules: tuple[str, ...] = ()
    """The files of udev with a rule that runs a program for each CPU that goes online or offline."""

    @property
    def deployed(self) -> bool:
        """Whether the kernel that runs is there on purpose: the one that deploy.yml started last."""
        record = self.deployment or {}
        return self.variant is not None and (self.release, self.variant) == (
            record.get("release"),
            record.get("variant"),
        )


def read_facts(
    fs: Sysfs, staging: Path, files: tuple[str, ...] = (), installed: tuple[str, ...] = ()
) -> Facts:
    """Gather all of it; records of runs are in STAGING, FILES are those to say of whether they are there.

    INSTALLED are the releases of installed kernels to read.
    """
    cmdline = fs.read_optional("/proc/cmdline") or ""
    tag = TAG.search(cmdline)
    cpus, going, online = _read_cpus(fs)
    lock = read_record(staging / LOCK, LOCK_KEYS)
    return Facts(
        euid=os.geteuid(),
        python=".".join(map(str, sys.version_info[:3])),
        machine=read_machine(fs),
        release=fs.read_optional("/proc/sys/kernel/osrelease"),
        boot_id=fs.read_optional(BOOT_ID),
        cmdline=cmdline,
        variant=tag[1] if tag else None,
        cpus=cpus,
        smt=read_smt(fs),
        platform=read_platform(fs),
        kexec=_read_kexec(fs),
        ppc64_cpu=read_ppc64_cpu(read_control(fs)),
        rcu=read_rcu(fs),
        systemd_run=find_program("systemd-run"),
        free_bytes=_free_bytes(staging),
        boot_free_bytes=_free_bytes(fs.path("/boot")) if fs.exists("/boot") else None,
        lock=lock,
        holder="" if lock is None else describe_held(staging / LOCK, lock),
        bulk_chunk=_read_int(fs, BULK_CHUNK),
        clocksource=_read_clocksource(fs, staging),
        files={name: Path(name).is_file() for name in files},
        workloads=read_workloads(fs, going, online),
        deployment=read_record(staging / "deployed.json", ("release", "variant", "boot")),
        watchdog=fs.read_optional("/sys/class/watchdog/watchdog0/identity"),
        os_release=read_os_release(fs),
        applied=read_applied(fs, staging),
        services=_read_services(fs),
        boot_read_only=_is_boot_read_only(fs),
        hardware=read_hardware(fs),
        installed=tuple(read_installed(fs, release) for release in installed),
        boot_initrd_bytes=max((path.stat().st_size for path in fs.glob("/boot", "initr*-*")), default=0),
        cpu_rules=cpu_rules(fs),
    )


def without_first(cpus: str) -> str:
    """Return a kernel CPU list without its first CPU."""
    return format_cpulist(sorted(parse_cpulist(cpus))[1:])


def _read_cpus(fs: Sysfs) -> tuple[Cpus, frozenset[int], frozenset[int]]:
    """Return the CPUs in words, those that smt=off takes, and those online."""
    present = fs.read_optional(f"{CPU_DIR}/present")
    online_text = fs.read_optional(f"{CPU_DIR}/online")
    online = parse_cpulist(online_text or "")
    going, threads = frozenset[int](), None
    try:
        topology = read_topology(fs)
    except ToolError:
        pass
    else:
        threads = topology.threads_per_core
        going = online - topology.expected_online(1, online)
    cpus = Cpus(
        present=present,
        online=online_text,
        all_but_first=without_first(present or ""),
        secondary=format_cpulist(going),
        threads_per_core=threads,
        isolated=fs.read_optional(f"{CPU_DIR}/isolated") or "",
        nohz_full=_nohz_full(fs.read_optional(f"{CPU_DIR}/nohz_full")),
    )
    return cpus, going, online


def _nohz_full(text: str | None) -> str:
    """Return a CPU list; kernels write "(null)" for none."""
    return "" if text in (None, "(null)") else str(text)


def _read_kexec(fs: Sysfs) -> Kexec:
    modes = re.search(r"\[(\w+)\]", fs.read_optional("/sys/kernel/security/lockdown") or "")
    return Kexec(
        path=find_program("kexec"),
        loaded=_read_int(fs, "/sys/kernel/kexec_loaded"),
        load_disabled=_read_int(fs, "/proc/sys/kernel/kexec_load_disabled"),
        crash_loaded=_read_int(fs, CRASH_LOADED),
        lockdown=modes[1] if modes else "none",
        fadump=next(
            (number for number in (_read_int(fs, name) for name in FADUMP) if number is not None), None
        ),
    )


def _read_int(fs: Sysfs, name: str) -> int | None:
    text = fs.read_optional(name)
    return int(text) if text is not None and text.isdecimal() else None


def _free_bytes(directory: Path) -> int:
    """Return the free space for root below a directory that need not exist yet."""
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(str(directory)).free


def _read_clocksource(fs: Sysfs, staging: Path) -> Clocksource:
    return Clocksource(
        current=fs.read_optional(CURRENT),
        available=tuple((fs.read_optional(AVAILABLE) or "").split()),
        record=read_record(staging / "clocksource.json", ("before", "applied", "boot_id")),
    )


def _read_services(fs: Sysfs) -> tuple[str, ...]:
    wanted = fs.path("/etc/systemd/system")
    return tuple(name for name in SERVICES if any(wanted.glob(f"*.wants/{name}.service")))


def _is_boot_read_only(fs: Sysfs) -> bool:
    """Return whether what holds /boot is mounted read-only."""
    mounts = read_mounts(fs)
    mount = mounts.get("/boot", mounts.get("/"))
    return mount is not None and mount.read_only
