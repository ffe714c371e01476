"""What a host's root, file systems, swap, network and protection are made of, down to the drivers.

Read-only; what cannot be read is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hotplug_host.preflight.system import (
    CRASH_LOADED,
    FADUMP,
    NET,
    SELINUX_ENFORCES,
    read_links_up,
    read_mounts,
    read_words,
)
from hotplug_host.sysfs import Sysfs

#: What protects a host or keeps its dumps: operators may allow a kernel to lack it.
FIREWALL, SELINUX, APPARMOR, AUDIT, KDUMP = "firewall", "selinux", "apparmor", "audit", "kdump"
BLOCK = "/sys/class/block"
#: Mount points without which no host comes up, whatever fstab has of them.
NEEDED = ("/", "/boot", "/boot/efi", "/usr", "/var")
AUDITD = ("/run/auditd.pid", "/run/audit/auditd.pid")
#: What iptables has rules in; the file is empty where only nftables is used.
TABLES = ("/proc/net/ip_tables_names", "/proc/net/ip6_tables_names")


@dataclass(frozen=True)
class Driver:
    """A driver of a device in use, its module if it is one, and what the device is called for a driver."""

    name: str
    modalias: str = ""
    module: str = ""


@dataclass(frozen=True)
class Device:
    """A disk or network interface, with the drivers from it up to its bus."""

    name: str
    drivers: tuple[Driver, ...]


@dataclass(frozen=True)
class Storage:
    """A file system or swap: what it is on, from its own type down, and the disks at the bottom."""

    place: str
    kind: str
    layers: tuple[str, ...]
    devices: tuple[Device, ...]
    needed: bool = True
    """Whether the host does not come up without it."""


@dataclass(frozen=True)
class Link:
    """A network interface that is up; KIND is bond, vlan, bridge or team, or empty for a device."""

    device: Device
    kind: str = ""


@dataclass(frozen=True)
class Hardware:
    """What a kernel for this host has to have drivers for."""

    storage: tuple[Storage, ...] = ()
    links: tuple[Link, ...] = ()
    firewall: tuple[str, ...] = ()
    """Modules of netfilter that are loaded, and iptables' tables."""
    protection: tuple[str, ...] = ()
    """Those of selinux, apparmor and audit that are in use."""
    extras: tuple[str, ...] = ()
    """Of the platform: pseries, lparcfg, hvc, kdump, fadump."""
    watchdog: Device | None = None


def read_hardware(fs: Sysfs) -> Hardware:
    """Gather all of it."""
    return Hardware(
        storage=tuple(_storage(fs)),
        links=tuple(_links(fs)),
        firewall=tuple(sorted(_firewall(fs))),
        protection=tuple(_protection(fs)),
        extras=tuple(_extras(fs)),
        watchdog=_watchdog(fs),
    )


def _storage(fs: Sysfs) -> Iterator[Storage]:
    fstab = read_mounts(fs, "/etc/fstab")
    for place, mount in read_mounts(fs).items():
        served = mount.kind.startswith("nfs")
        if not (place in NEEDED or place in fstab) or not (served or mount.source.startswith("/dev/")):
            continue
        layers, devices = _below(fs, _block_name(fs, mount.source))
        optional = served or (place in fstab and "nofail" in fstab[place].options)
        yield Storage(place, mount.kind, layers, devices, place == "/" or not optional)
    for words in read_words(fs, "/proc/swaps"):
        if words[0].startswith("/dev/"):
            yield Storage("swap", "swap", *_below(fs, _block_name(fs, words[0])), needed=False)


def _block_name(fs: Sysfs, source: str) -> str:
    """Return the kernel's name of a block device; udev's names are links to it."""
    if source == "/dev/root":
        words = (fs.read_optional("/proc/cmdline") or "").split()
        source = next((word[5:] for word in words if word.startswith("root=")), source)
        key, is_tag, value = source.partition("=")
        source = f"/dev/disk/by-{key.lower()}/{value}" if is_tag else source
    return fs.path(source).resolve().name


def _below(fs: Sysfs, name: str) -> tuple[tuple[str, ...], tuple[Device, ...]]:
    """Return the layers and the disks below a block device."""
    base = f"{BLOCK}/{name}"
    if not fs.exists(base):
        return (), ()
    if fs.exists(f"{base}/partition"):
        return _below(fs, fs.path(base).resolve().parent.name)
    own = _layer(fs, base)
    slaves = [path.name for path in fs.glob(f"{base}/slaves", "*")]
    if not slaves:
        return own, (Device(name, tuple(_drivers(fs, base))),)
    found = [_below(fs, slave) for slave in slaves]
    layers = dict.fromkeys(layer for one, _ in found for layer in one)
    return (*own, *layers), tuple(dict.fromkeys(device for _, two in found for device in two))


def _layer(fs: Sysfs, base: str) -> tuple[str, ...]:
    level = fs.read_optional(f"{base}/md/level")
    if level:
        return (level,)
    uuid = fs.read_optional(f"{base}/dm/uuid")
    if uuid is None:
        return ()
    if uuid.startswith("LVM-"):
        return ("thin pool",) if uuid.endswith("-tpool") else ("LVM",)
    return ("multipath" if "mpath-" in uuid else "crypt" if uuid.startswith("CRYPT-") else "device mapper",)


def _drivers(fs: Sysfs, base: str) -> Iterator[Driver]:
    """Yield the drivers of a device and of what it hangs on, the nearest first."""
    device = fs.path(f"{base}/device")
    if not device.exists():
        return
    top, start = fs.path("/sys/devices").resolve(), device.resolve()
    # NVMe with several controllers: the disk is the subsystem's, and the controllers are links in that.
    controllers = sorted(start.glob("nvme*/device")) if "nvme-subsystem" in start.parts else []
    for path in dict.fromkeys(
        step
        for begin in [start, *(one.resolve() for one in controllers)]
        for step in (begin, *begin.parents)
        if top in step.parents
    ):
        if (path / "driver").exists():
            driver = (path / "driver").resolve()
            module = driver / "module"
            yield Driver(
                driver.name, _text(path / "modalias"), module.resolve().name if module.exists() else ""
            )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _links(fs: Sysfs) -> Iterator[Link]:
    for name in read_links_up(fs):
        if _reaches_device(fs, name):
            yield Link(Device(name, tuple(_drivers(fs, f"{NET}/{name}"))), _link_kind(fs, name))


def _reaches_device(fs: Sysfs, name: str) -> bool:
    """Return whether there is a device in or below a link: a bridge of virtual machines only has none."""
    lower = [path.name[len("lower_") :] for path in fs.glob(f"{NET}/{name}", "lower_*")]
    return fs.exists(f"{NET}/{name}/device") or any(_reaches_device(fs, one) for one in lower)


def _link_kind(fs: Sysfs, name: str) -> str:
    base = f"{NET}/{name}"
    if fs.exists(f"{base}/device"):
        return ""
    if fs.exists(f"{base}/bonding"):
        return "bond"
    if fs.exists(f"{base}/bridge"):
        return "bridge"
    if "DEVTYPE=vlan" in (fs.read_optional(f"{base}/uevent") or ""):
        return "vlan"
    return "team" if fs.exists("/sys/module/team") else ""


def _firewall(fs: Sysfs) -> Iterator[str]:
    """Yield what is loaded of nftables, and of iptables the tables that are in use."""
    modules = [words[0] for words in read_words(fs, "/proc/modules")]
    # Of nftables without a chain, nothing but itself is loaded.
    nft = [name for name in modules if name.startswith(("nft_", "nf_tables"))]
    yield from nft if len(nft) > 1 else []
    for name in TABLES:
        yield from (f"{name.split('/')[-1].split('_')[0]}:{words[0]}" for words in read_words(fs, name))


def _protection(fs: Sysfs) -> Iterator[str]:
    if fs.read_optional(SELINUX_ENFORCES) == "1":
        yield SELINUX
    if fs.read_optional("/sys/module/apparmor/parameters/enabled") == "Y":
        yield APPARMOR
    if any(map(fs.exists, AUDITD)):
        yield AUDIT


def _extras(fs: Sysfs) -> Iterator[str]:
    if "pSeries" in (fs.read_optional("/proc/cpuinfo") or ""):
        yield "pseries"
        if any(words[0].startswith("hvc") for words in read_words(fs, "/proc/consoles")):
            yield "hvc"
    if fs.exists("/proc/powerpc/lparcfg"):
        yield "lparcfg"
    if fs.read_optional(CRASH_LOADED) == "1":
        yield KDUMP
    if "1" in map(fs.read_optional, FADUMP):
        yield "fadump"


def _watchdog(fs: Sysfs) -> Device | None:
    base = "/sys/class/watchdog/watchdog0"
    if fs.read_optional(f"{base}/state") != "active":
        return None
    identity = fs.read_optional(f"{base}/identity") or ""
    return Device("watchdog0", tuple(_drivers(fs, base)) or (Driver(identity),))
