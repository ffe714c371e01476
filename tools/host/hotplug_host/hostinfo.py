"""What a result has to say about the host it was measured on."""

from __future__ import annotations

import os
from dataclasses import dataclass

from hotplug_host.rcu import FQS_DELAYS, RCU_EXPEDITED, RCU_NORMAL
from hotplug_host.sysfs import BOOT_ID, Sysfs

RCU_FILES = (
    RCU_EXPEDITED,
    RCU_NORMAL,
    "/sys/module/rcutree/parameters/rcu_normal_wake_from_gp",
    *FQS_DELAYS,
    "/sys/module/rcutree/parameters/rcu_fanout_leaf",
    "/sys/module/rcupdate/parameters/rcu_expedited",
    "/sys/module/rcupdate/parameters/rcu_normal",
)
HYPERVISOR_COMPATIBLE = (
    "/sys/firmware/devicetree/base/hypervisor/compatible",
    "/proc/device-tree/hypervisor/compatible",
)
#: cpuinfo keys that name the processor, the best one first ("cpu" on POWER, "model name" on x86).
CPU_MODEL_KEYS = ("model name", "cpu")
#: In place of what a host does not tell.
UNKNOWN = "unknown"

OS_KEYS = ("ID", "ID_LIKE", "VERSION_ID")


@dataclass(frozen=True)
class HostInfo:
    """One host as booted; the field names are those of the result file."""

    hostname: str
    machine: str
    kernel_release: str
    kernel_version: str
    boot_id: str
    cmdline: str
    boot_method: str
    emulated: bool
    cpu_model: str


def read_host(fs: Sysfs, boot_method: str, emulated: bool) -> HostInfo:
    """Describe the host. EMULATED says it is, whatever the host itself shows."""
    names = os.uname()
    cpuinfo = fs.read_optional("/proc/cpuinfo") or ""
    compatible = next((text for name in HYPERVISOR_COMPATIBLE if (text := fs.read_optional(name))), "")
    return HostInfo(
        hostname=_kernel_file(fs, "hostname", names.nodename),
        machine=read_machine(fs),
        kernel_release=_kernel_file(fs, "osrelease", names.release),
        kernel_version=_kernel_file(fs, "version", names.version),
        boot_id=fs.read_optional(BOOT_ID) or UNKNOWN,
        cmdline=fs.read_optional("/proc/cmdline") or "",
        boot_method=boot_method,
        emulated=emulated or is_emulated(cpuinfo, compatible),
        cpu_model=cpu_model(cpuinfo),
    )


def read_machine(fs: Sysfs) -> str:
    """Return the machine name as in `uname -m`."""
    return _kernel_file(fs, "arch", os.uname().machine)


def read_rcu(fs: Sysfs) -> dict[str, str]:
    """Return the RCU settings there are: boot and run-time ones under the name of their file."""
    settings: dict[str, str] = {}
    for name in RCU_FILES:
        value = fs.read_optional(name)
        if value is not None:
            # /sys/kernel is listed first: what is in force wins over the boot parameter of that name.
            settings.setdefault(name.rsplit("/", 1)[1], value)
    return settings


def cpu_model(cpuinfo: str) -> str:
    """Return the processor's name from /proc/cpuinfo text; "unknown" when it has none."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return next((fields[key] for key in CPU_MODEL_KEYS if fields.get(key)), UNKNOWN)


def is_emulated(cpuinfo: str, hypervisor_compatible: str) -> bool:
    """Whether the CPUs are software: QEMU's TCG on x86, or a QEMU pseries guest that is not under KVM.

    QEMU says "emulated by qemu" under KVM too, but adds a hypervisor node only then.
    """
    if "QEMU TCG CPU" in cpuinfo:
        return True
    return "emulated by qemu" in cpuinfo and "linux,kvm" not in hypervisor_compatible


def _kernel_file(fs: Sysfs, name: str, fallback: str) -> str:
    return fs.read_optional(f"/proc/sys/kernel/{name}") or fallback


def read_os_release(fs: Sysfs) -> dict[str, str]:
    """Return what tells distributions apart, of those lines that /etc/os-release has."""
    lines = (fs.read_optional("/etc/os-release") or "").splitlines()
    pairs = (line.partition("=") for line in lines)
    return {key: value.strip().strip("\"'") for key, _, value in pairs if key in OS_KEYS}
