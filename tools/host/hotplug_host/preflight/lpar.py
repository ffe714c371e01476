"""What is below the kernel: an LPAR and how it shares its processors, a hypervisor, secure boot."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from hotplug_host.sysfs import Sysfs

DEVICE_TREE = ("/sys/firmware/devicetree/base", "/proc/device-tree")
LPARCFG = "/proc/powerpc/lparcfg"
EFI_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
#: ibm,secure-boot of PAPR: 0 off, 1 log only, 2 and above enforced.
PAPR_ENFORCED = 2
DEDICATED, SHARED = "dedicated", "shared"


@dataclass(frozen=True)
class Platform:
    """What runs the kernel; None is "it does not say"."""

    #: "dedicated" or "shared" processors of an LPAR.
    lpar_mode: str | None
    hypervisor: str | None
    secure_boot: bool | None
    #: What an LPAR may take of its processors: how many, and whether no more when others are idle.
    entitled: float | None = None
    capped: bool | None = None


def read_platform(fs: Sysfs) -> Platform:
    """Return what the host says of what is below it."""
    lparcfg = fs.read_optional(LPARCFG) or ""
    hundredths, capped = (_number(lparcfg, name) for name in ("partition_entitled_capacity", "capped"))
    return Platform(
        lpar_mode=lpar_mode(lparcfg),
        hypervisor=_hypervisor(fs),
        secure_boot=_secure_boot(fs),
        entitled=None if hundredths is None else hundredths / 100,
        capped=None if capped is None else capped == 1,
    )


def lpar_mode(lparcfg: str) -> str | None:
    """Return whether an LPAR's processors are its own, by /proc/powerpc/lparcfg; None if it says neither."""
    mode = _number(lparcfg, "shared_processor_mode")
    return None if mode is None else DEDICATED if mode == 0 else SHARED


def _number(lparcfg: str, name: str) -> int | None:
    found = re.search(rf"^{name}=(\d+)", lparcfg, re.MULTILINE)
    return int(found[1]) if found else None


def _hypervisor(fs: Sysfs) -> str | None:
    """Return who hosts this machine. A POWER LPAR that is no KVM guest has no hypervisor node."""
    compatible = _device_tree(fs, "hypervisor/compatible")
    if compatible is not None:
        return compatible.decode("utf-8", "replace").strip("\0").split("\0")[0]
    kind = fs.read_optional("/sys/hypervisor/type")
    if kind:
        return kind
    cpuinfo = fs.read_optional("/proc/cpuinfo") or ""
    if fs.exists(LPARCFG) or re.search(r"^platform\s*:\s*pSeries", cpuinfo, re.MULTILINE):
        return "PowerVM or compatible"
    names = [fs.read_optional(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")]
    product = " ".join(filter(None, names))
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE)
    return (product or "unknown") if flags else None


def _secure_boot(fs: Sysfs) -> bool | None:
    papr = _device_tree(fs, "ibm,secure-boot")
    if papr is not None and len(papr) == 4:
        return bool(struct.unpack(">I", papr)[0] >= PAPR_ENFORCED)
    if _device_tree(fs, "ibm,secureboot/os-secureboot-enforcing") is not None:
        return True
    efi = _read_bytes(fs, EFI_SECURE_BOOT)
    # Four bytes of attributes, and the value.
    return efi[4] == 1 if efi is not None and len(efi) == 5 else None


def _device_tree(fs: Sysfs, name: str) -> bytes | None:
    return next(
        (data for base in DEVICE_TREE if (data := _read_bytes(fs, f"{base}/{name}")) is not None), None
    )


def _read_bytes(fs: Sysfs, name: str) -> bytes | None:
    try:
        return fs.path(name).read_bytes()
    except OSError:
        return None
