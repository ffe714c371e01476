"""Whether a kernel's configuration has what a host needs to come up as it is.

Pure. NEEDS is the one place that says which symbols of Kconfig what needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hotplug_host.preflight.hardware import (
    APPARMOR,
    AUDIT,
    FIREWALL,
    KDUMP,
    SELINUX,
    Device,
    Hardware,
    Storage,
)

#: What may be missing where an operator allows it.
ALLOWABLE = (FIREWALL, SELINUX, APPARMOR, AUDIT, KDUMP)
#: Buses whose modules drive disks and links; names of other modules need not travel.
ALIAS = re.compile(r"alias (?:pci|vio|virtio|vmbus|xen):\S* (\S+)$")

#: By driver, file system, layer, kind of link, module or feature: the symbols, "A|B" for either. Those of
#: buses that need none have none.
NEEDS: Mapping[str, tuple[str, ...]] = {
    # Disks.
    "ibmvscsi": ("SCSI_IBMVSCSI",),
    "ibmvfc": ("SCSI_IBMVFC",),
    "lpfc": ("SCSI_LPFC",),
    "qla2xxx": ("SCSI_QLA_FC",),
    "mpt3sas": ("SCSI_MPT3SAS",),
    "megaraid_sas": ("MEGARAID_SAS",),
    "smartpqi": ("SCSI_SMARTPQI",),
    "hpsa": ("SCSI_HPSA",),
    "ipr": ("SCSI_IPR",),
    "ahci": ("SATA_AHCI",),
    "ata_piix": ("ATA_PIIX",),
    "sd": ("BLK_DEV_SD",),
    "nvme": ("BLK_DEV_NVME",),
    "virtio_blk": ("VIRTIO_BLK",),
    "virtio_scsi": ("SCSI_VIRTIO",),
    "vmw_pvscsi": ("VMWARE_PVSCSI",),
    "hv_storvsc": ("HYPERV_STORAGE",),
    "usb-storage": ("USB_STORAGE",),
    # Links.
    "virtio_net": ("VIRTIO_NET",),
    "ibmveth": ("IBMVETH",),
    "ibmvnic": ("IBMVNIC",),
    "mlx5_core": ("MLX5_CORE", "MLX5_CORE_EN"),
    "e1000": ("E1000",),
    "e1000e": ("E1000E",),
    "igb": ("IGB",),
    "ixgbe": ("IXGBE",),
    "i40e": ("I40E",),
    "ice": ("ICE",),
    "bnxt_en": ("BNXT",),
    "bnx2x": ("BNX2X",),
    "tg3": ("TIGON3",),
    "be2net": ("BE2NET",),
    "r8169": ("R8169",),
    "vmxnet3": ("VMXNET3",),
    "hv_netvsc": ("HYPERV_NET",),
    "bond": ("BONDING",),
    "vlan": ("VLAN_8021Q",),
    "bridge": ("BRIDGE",),
    "team": ("NET_TEAM",),
    # Buses.
    "virtio-pci": ("VIRTIO_PCI",),
    "xhci_hcd": ("USB_XHCI_HCD",),
    "pcieport": (),
    "usb": (),
    "hub": (),
    # Between a file system and its disk.
    "LVM": ("BLK_DEV_DM",),
    "thin pool": ("BLK_DEV_DM", "DM_THIN_PROVISIONING"),
    "multipath": ("BLK_DEV_DM", "DM_MULTIPATH"),
    "crypt": ("BLK_DEV_DM", "DM_CRYPT"),
    "device mapper": ("BLK_DEV_DM",),
    "raid0": ("BLK_DEV_MD", "MD_RAID0"),
    "raid1": ("BLK_DEV_MD", "MD_RAID1"),
    "raid10": ("BLK_DEV_MD", "MD_RAID10"),
    "raid4": ("BLK_DEV_MD", "MD_RAID456"),
    "raid5": ("BLK_DEV_MD", "MD_RAID456"),
    "raid6": ("BLK_DEV_MD", "MD_RAID456"),
    # File systems.
    "ext2": ("EXT2_FS|EXT4_USE_FOR_EXT2",),
    "ext3": ("EXT4_FS",),
    "ext4": ("EXT4_FS",),
    "xfs": ("XFS_FS",),
    "btrfs": ("BTRFS_FS",),
    "vfat": ("VFAT_FS", "NLS_CODEPAGE_437"),
    "nfs": ("NFS_FS",),
    "nfs4": ("NFS_FS",),
    "swap": ("SWAP",),
    # Protection; what is loaded of nftables.
    "nf_tables": ("NF_TABLES",),
    "nft_ct": ("NFT_CT",),
    "nft_nat": ("NFT_NAT",),
    "nft_masq": ("NFT_MASQ",),
    "nft_reject": ("NFT_REJECT",),
    "nft_fib_inet": ("NFT_FIB_INET",),
    "nft_compat": ("NFT_COMPAT",),
    "ip:filter": ("IP_NF_FILTER",),
    "ip:nat": ("IP_NF_NAT",),
    "ip:mangle": ("IP_NF_MANGLE",),
    "ip:raw": ("IP_NF_RAW",),
    "ip6:filter": ("IP6_NF_FILTER",),
    SELINUX: ("SECURITY_SELINUX",),
    APPARMOR: ("SECURITY_APPARMOR",),
    AUDIT: ("AUDIT",),
    # Watchdogs, and the platform.
    "pseries-wdt": ("PSERIES_WDT",),
    "Software Watchdog": ("SOFT_WATCHDOG",),
    "iTCO_wdt": ("ITCO_WDT",),
    "pseries": ("PPC_PSERIES",),
    "lparcfg": ("LPARCFG",),
    "hvc": ("HVC_CONSOLE",),
    KDUMP: ("CRASH_DUMP",),
    "fadump": ("FA_DUMP",),
}
SYMBOLS = frozenset(name for needs in NEEDS.values() for either in needs for name in either.split("|"))
WORDS = {"xfs": "XFS", "btrfs": "btrfs", "vfat": "VFAT"}
PLATFORM = {
    "lparcfg": "lparstat reads /proc/powerpc/lparcfg",
    "hvc": "the console is hvc0",
    KDUMP: "kdump is ready",
    "fadump": "fadump is registered",
}


@dataclass(frozen=True)
class Kernel:
    """A kernel to boot: of its configuration the SYMBOLS that count, "y" or "m"; None if it is not known."""

    release: str
    arch: str = ""
    symbols: Mapping[str, str] | None = None
    modules: tuple[str, ...] | None = None
    """Names of the modules that come with it, of those that drive devices; None where none come."""


@dataclass(frozen=True)
class Finding:
    """What a host has, and what a kernel lacks for it."""

    stops: bool
    text: str
    step: str = field(default="build the kernel with that, or from the host's own configuration")


def read_config(text: str, release: str, arch: str = "", aliases: str | None = None) -> Kernel:
    """Return a kernel by the text of its .config, and of its modules.alias where modules come with it."""
    options = dict(re.findall(r"^CONFIG_(\w+)=([ym])$", text, re.MULTILINE))
    found = None if aliases is None else filter(None, map(ALIAS.match, aliases.splitlines()))
    return Kernel(
        release,
        arch,
        {name: value for name, value in options.items() if name in SYMBOLS},
        None if found is None else tuple(sorted({one[1] for one in found})),
    )


def findings(
    hardware: Hardware, kernel: Kernel, initrd: bool, allowed: Iterable[str] = ()
) -> Iterator[Finding]:
    """Yield what the kernel lacks; ALLOWED of ALLOWABLE does not stop it."""
    if kernel.symbols is None:
        yield Finding(
            False, f"the configuration of {kernel.release} is not known, so its drivers are not checked"
        )
        return
    for storage in hardware.storage:
        if storage.place == "/" and storage.kind.startswith("nfs"):
            yield Finding(
                True, "root is on NFS, which no kernel of this project boots from", "leave this host out"
            )
            continue
        drivers = [driver.name for device in storage.devices for driver in device.drivers]
        early = storage.place == "/" and not initrd
        what = f"{'root' if storage.place == '/' else storage.place} is on {_chain(storage)}"
        yield from _lacking(kernel, storage.needed, what, [storage.kind, *storage.layers, *drivers], early)
    for link in hardware.links:
        drivers = [driver.name for driver in link.device.drivers]
        what = f"{_device(link.device)} is up"
        yield from _lacking(kernel, True, what, [*filter(None, [link.kind]), *drivers])
    devices = [one for storage in hardware.storage for one in storage.devices]
    yield from _unknown([*devices, *(link.device for link in hardware.links)], kernel)
    if hardware.firewall:
        stops = FIREWALL not in allowed
        yield from _lacking(kernel, stops, "the host has a firewall", hardware.firewall)
    for name in hardware.protection:
        yield from _lacking(kernel, name not in allowed, f"the host uses {name}", [name])
    for name in hardware.extras:
        what = PLATFORM.get(name, "the host is a pSeries machine")
        yield from _lacking(kernel, name == "pseries", what, [name])
    if hardware.watchdog:
        drivers = [driver.name for driver in hardware.watchdog.drivers]
        yield from _lacking(kernel, False, f"a watchdog ({drivers[0]}) is in use", drivers)


def _lacking(
    kernel: Kernel, stops: bool, what: str, needed: Iterable[str], early: bool = False
) -> Iterator[Finding]:
    """Yield one finding for all that is missing. EARLY is needed where there is no initial RAM disk."""
    symbols = dict.fromkeys(symbol for name in needed for symbol in NEEDS.get(name, ()))
    have = {either: {(kernel.symbols or {}).get(name) for name in either.split("|")} for either in symbols}
    missing = [either for either, values in have.items() if not values & {"y", "m"}]
    modules = [either for either, values in have.items() if "y" not in values and "m" in values]
    if missing:
        yield Finding(stops, f"{what}: the kernel {kernel.release} lacks {_named(missing)}")
    if modules and kernel.modules is None:
        yield Finding(
            stops, f"{what}: {kernel.release} has {_named(modules)} as modules, and comes without modules"
        )
    elif modules and early:
        yield Finding(
            stops,
            f"{what}: {kernel.release} has {_named(modules)} as modules, and no initial RAM disk is given",
            "set ab_initrd to one with them, or to make where deploy.yml installs it, or build them in",
        )


def _unknown(devices: Iterable[Device], kernel: Kernel) -> Iterator[Finding]:
    """Yield drivers that NEEDS has no row for, unless a module of the kernel drives the device."""
    names = kernel.modules or ()
    seen = dict.fromkeys((driver, device.name) for device in devices for driver in device.drivers)
    for driver, device in seen:
        module = (driver.module or driver.name).replace("-", "_")
        if driver.name not in NEEDS and module not in {name.replace("-", "_") for name in names}:
            yield Finding(
                False,
                f"{device} has driver {driver.name} ({driver.modalias or 'no modalias'}), and it is not known"
                f" which symbol {kernel.release} needs",
                "look for it in the kernel's configuration",
            )


def _chain(storage: Storage) -> str:
    disks = ", ".join(map(_device, storage.devices)) or "an unknown device"
    return " on ".join([WORDS.get(storage.kind, storage.kind), *storage.layers, disks])


def _device(device: Device) -> str:
    """Return "sda (ibmvscsi)": of the drivers, the last that is no bus's."""
    own = [driver.name for driver in device.drivers if NEEDS.get(driver.name) != () and driver.name != "sd"]
    return f"{device.name} ({own[0]})" if own else device.name


def _named(symbols: Iterable[str]) -> str:
    return ", ".join(" or ".join(f"CONFIG_{name}" for name in one.split("|")) for one in symbols)
