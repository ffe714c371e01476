"""The initial RAM disk of a kernel that a run installs: the host's own tool makes it.

It is beside the kernel, where no generator of boot entries looks for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hotplug_host.agent.distribution import Folders, run
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.preflight.hardware import Storage, read_hardware
from hotplug_host.programs import find_program
from hotplug_host.sysfs import Sysfs

NAME = "initrd.img"
#: A file of a module, in a folder, in a list, or in a list with more about each.
MODULE = re.compile(r"([\w-]+)\.ko(?:\.\w+)?(?=\s|\Z)", re.MULTILINE)
#: What kdump of Debian, of the RHEL family and of SLES makes at a boot for the kernel that runs.
DUMPS = ("var/lib/kdump/*-{}", "var/lib/kdump/*-{}kdump.img", "boot/*-{}kdump.img", "boot/initrd-{}-kdump")
#: Modules of what is between a file system and its disks; of RAID, aliases.
LAYERS = {
    "LVM": "dm-mod",
    "thin pool": "dm-thin-pool",
    "multipath": "dm-multipath",
    "crypt": "dm-crypt",
    "device mapper": "dm-mod",
}


@dataclass(frozen=True)
class Maker:
    """A distribution's tool: what makes FILE for RELEASE, what lists it, and where modules are named."""

    make: tuple[str, ...]
    list: str
    settings: str


MAKERS = (
    Maker(("mkinitramfs", "-o", "{file}", "{release}"), "lsinitramfs", "/etc/initramfs-tools/modules"),
    Maker(("dracut", "--force", "{file}", "{release}"), "lsinitrd", "add_drivers in /etc/dracut.conf.d"),
)


def maker_here() -> Maker:
    """Return the host's tool; ToolError without one."""
    for maker in MAKERS:
        if find_program(maker.make[0]):
            return maker
    names = " nor ".join(maker.make[0] for maker in MAKERS)
    raise ToolError(
        f"neither {names} is on the host, to make an initial RAM disk: install initramfs-tools or dracut"
    )


def make(sysroot: Path, release: str) -> bool:
    """Make the initial RAM disk of an installed kernel unless it is there.

    ToolError (OPERATION) where the tool fails, or leaves out what the host's root is on.
    """
    file = Folders(sysroot, release).kernel / NAME
    if file.is_file():
        return False
    maker = maker_here()
    draft = file.with_name(f"{NAME}.new")
    try:
        _print_of([word.format(file=draft, release=release) for word in maker.make])
        there = {_plain(name) for name in MODULE.findall(_print_of([maker.list, str(draft)]))}
        missing = list(_missing(sysroot, release, there))
        if missing:
            raise ToolError(
                f"{maker.make[0]} has made an initial RAM disk without {', '.join(missing)}, which the host's"
                f" root is on: name them in {maker.settings}",
                code=ExitCode.OPERATION,
            )
        draft.replace(file)
    finally:
        if draft.exists():
            draft.unlink()
    return True


def made(sysroot: Path, release: str) -> list[Path]:
    """Return what was made for the kernel, also in part, and what the host's kdump made for it."""
    folder = Folders(sysroot, release).kernel
    dumps = [path for pattern in DUMPS for path in sysroot.glob(pattern.format(release))]
    return [path for path in (*folder.glob(f"{NAME}*"), *dumps) if path.is_file()]


def remove(sysroot: Path, release: str) -> bool:
    """Remove it: a package's folder goes when it is empty, and here where the package is gone already."""
    files = made(sysroot, release)
    for path in files:
        path.unlink()
    folder = Folders(sysroot, release).kernel
    if files and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    return bool(files)


def _missing(sysroot: Path, release: str, there: set[str]) -> Iterator[str]:
    """Yield the modules that the host's root is on, and that are not there; what is built in is no module."""
    installed = {
        _plain(found[1])
        for path in Folders(sysroot, release).modules.rglob("*.ko*")
        if (found := MODULE.fullmatch(path.name))
    }
    roots = [storage for storage in read_hardware(Sysfs(sysroot)).storage if storage.place == "/"]
    for name in (name for root in roots for name in _names(root)):
        # One of several that drive a device is enough.
        modules = [one for one in _resolve(sysroot, release, name) if one in installed]
        if modules and not there.intersection(modules):
            yield " or ".join(modules)


def _names(storage: Storage) -> Iterator[str]:
    """Yield what modprobe is asked for: the file system, what is below it, and the disks' drivers."""
    yield f"fs-{storage.kind}"
    for layer in storage.layers:
        yield LAYERS.get(layer, f"md-{layer}")
    aliases = (driver.modalias or driver.name for device in storage.devices for driver in device.drivers)
    yield from dict.fromkeys(aliases)


def _resolve(sysroot: Path, release: str, name: str) -> list[str]:
    """Return the modules that a name stands for in the kernel; none where it knows none."""
    words = [f"--dirname={sysroot}", f"--set-version={release}", "--resolve-alias", name]
    _, printed, _ = run(["modprobe", *words])
    return list(map(_plain, printed.split()))


def _print_of(command: list[str]) -> str:
    """Return what a tool prints; ToolError with its fault."""
    code, printed, fault = run(command)
    if code != 0:
        raise ToolError(f"{command[0]} ended with exit code {code}: {fault}", code=ExitCode.OPERATION)
    return printed


def _plain(name: str) -> str:
    """Return a module's name: its file may have dashes."""
    return name.replace("-", "_")
