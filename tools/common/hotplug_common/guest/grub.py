"""GRUB for guests that boot as an LPAR does: a disk of its own holds the boot loader and /boot.

What is the same for all guests (GRUB's core image, its modules, an empty environment block) is made with the
base disk, by the GRUB in there. What is not (kernel, grub.cfg) is added when a guest is started.
"""

from __future__ import annotations

import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import needs as preflight
from hotplug_common import process
from hotplug_common.arch import PPC64LE, X86_64, Arch
from hotplug_common.kernel.artifact import Artifact
from hotplug_host.errors import ExitCode, ToolError

CONFIG = Path(__file__).parent / "data" / "grub.cfg"
LABEL = "lpar-lab-boot"
"""By which the core image, grub.cfg and the guest find the file system; also in data/."""
UUID = "6f0b3f0c-8f8e-4f0a-9a52-0c7d6d1e5b07"
"""Fixed: no machine has two of them."""
DEFAULTS = "etc/default/grub"
"""What update-grub in the guest goes by."""
MOUNT = f"systemd.mount-extra=LABEL={LABEL}:/boot:ext4"
"""Word of the kernel's command line that mounts it; other guests share the base disk and have none."""

SECTOR = 512
MIB = 1 << 20
TYPE_PREP, TYPE_LINUX, TYPE_LVM, TYPE_EFI = 0x41, 0x83, 0x8E, 0xEF
ACTIVE = 0x80
BOOT_CODE, TABLE = 440, 446
"""Bytes of the first sector that the BIOS runs, and where the partition table begins."""


@dataclass(frozen=True)
class Partition:
    """One of the disk's partitions; sizes in MiB."""

    type: int
    start: int
    size: int

    def entry(self) -> bytes:
        """Return its 16 bytes in the partition table. Cylinders and heads are of no interest to anybody."""
        head = struct.pack("<B3sB3s", ACTIVE if self.type == TYPE_PREP else 0, b"", self.type, b"")
        return head + struct.pack("<II", self.start * MIB // SECTOR, self.size * MIB // SECTOR)


CORE = Partition(TYPE_PREP, 1, 8)
"""GRUB's core image, as large as Debian's installer makes it. The BIOS's is in the gap before it."""
BOOT = Partition(TYPE_LINUX, 9, 247)
"""The file system."""


@dataclass(frozen=True)
class Platform:
    """GRUB for one firmware."""

    name: str
    """GRUB's name for it."""
    package: str
    """The package with its modules."""
    core: str
    """File name of the core image, as grub-install chooses it."""
    modules: tuple[str, ...]
    """What the core image needs to get at the others, which are in /boot/grub."""
    kernel: str
    """What Debian calls a kernel image in /boot, before the release."""
    files: tuple[str, ...] = ("*.mod", "*.lst")
    """What of the package goes to /boot/grub."""


PLATFORMS = {
    PPC64LE.name: Platform(
        "powerpc-ieee1275", "grub-ieee1275-bin", "core.elf", ("ext2", "part_msdos", "search_label"), "vmlinux"
    ),
    X86_64.name: Platform(
        "i386-pc",
        "grub-pc-bin",
        "core.img",
        ("biosdisk", "ext2", "part_msdos", "search_label"),
        "vmlinuz",
        ("*.mod", "*.lst", "boot.img"),
    ),
}


def packages(arch: Arch) -> tuple[str, ...]:
    """Return the packages that a guest needs for it."""
    return ("grub2-common", PLATFORMS[arch.name].package)


def hooks(arch: Arch) -> list[str]:
    """Return what mmdebstrap does in the installed system: /boot/grub as grub-install makes it.

    grub-install itself wants to see the guest's disks.
    """
    return [
        *image_hooks(PLATFORMS[arch.name]),
        'chroot "$1" grub-editenv /boot/grub/grubenv create',
    ]


def image_hooks(platform: Platform) -> list[str]:
    """Return what mmdebstrap does for the modules and the core image of a platform."""
    folder = f"/boot/grub/{platform.name}"
    files = " ".join(f'"$1"/usr/lib/grub/{platform.name}/{name}' for name in platform.files)
    return [
        f'mkdir -p "$1"{folder}',
        f'cp {files} "$1"{folder}',
        f'chroot "$1" grub-mkimage --format={platform.name} --output={folder}/{platform.core} --prefix=/grub'
        f" --config=/boot/grub/load.cfg {' '.join(platform.modules)}",
    ]


def words(extra: str) -> str:
    """Return what the default kernel's command line has beside other guests'."""
    return f"{MOUNT} {extra}".rstrip()


def defaults(command_line: str) -> bytes:
    """Return what DEFAULTS holds, so that update-grub in the guest makes the same entry."""
    # 10_linux has a root= of its own and says "ro"; the kernel goes by the last of them.
    rest = " ".join(word for word in command_line.split() if not word.startswith("root="))
    return (
        "# Written by lpar-lab for this guest.\n"
        "GRUB_DEFAULT=saved\n"
        "GRUB_TIMEOUT=1\n"
        "GRUB_DISTRIBUTOR=Debian\n"
        'GRUB_CMDLINE_LINUX_DEFAULT=""\n'
        f'GRUB_CMDLINE_LINUX="{rest}"\n'
        "GRUB_DISABLE_LINUX_UUID=true\n"
        "GRUB_TERMINAL=console\n"
    ).encode()


def config(arch: Arch, release: str, command_line: str, initrd: str = "") -> str:
    """Return the guest's first grub.cfg; INITRD is the file name of an initial RAM disk in /boot."""
    values = {
        "RELEASE": release,
        "KERNEL": kernel_name(arch, release),
        "WORDS": command_line + (f"\n\tinitrd\t/{initrd}" if initrd else ""),
    }
    text = CONFIG.read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def kernel_name(arch: Arch, release: str) -> str:
    """Return the kernel's file name in /boot, where 10_linux finds it."""
    return f"{PLATFORMS[arch.name].kernel}-{release}"


def write(template: Path, arch: Arch, kernel: Artifact, command_line: str, image: Path) -> None:
    """Make a guest's boot disk: TEMPLATE is the base disk's /boot.

    Raises ToolError (ENVIRONMENT) when the file system cannot be made.
    """
    platform = PLATFORMS[arch.name]
    core = (template / "grub" / platform.name / platform.core).read_bytes()
    tree = image.with_suffix(".tree")
    try:
        shutil.copytree(template, tree)
        shutil.copyfile(kernel.image, tree / kernel_name(arch, kernel.release))
        shutil.copyfile(kernel.config, tree / f"config-{kernel.release}")
        (tree / "grub/grub.cfg").write_text(config(arch, kernel.release, command_line))
        with image.open("wb") as disk:
            disk.truncate((BOOT.start + BOOT.size) * MIB)
        make_file_system(tree, image, BOOT)
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    write_outside(image, _outside(template, arch, core))


def write_outside(image: Path, contents: dict[int, bytes]) -> None:
    """Write what is on a disk outside of the file systems, by offset."""
    with image.open("r+b") as disk:
        for offset, content in contents.items():
            disk.seek(offset)
            disk.write(content)


def power_outside(core: bytes, *partitions: Partition) -> dict[int, bytes]:
    """Return a POWER disk's partition table and GRUB's core image, by offset; PARTITIONS follow the core's.

    Raises ToolError when the core image is too large.
    """
    _check_core(core, CORE.size * MIB)
    return {TABLE: table(CORE, *partitions), CORE.start * MIB: core}


def _outside(template: Path, arch: Arch, core: bytes) -> dict[int, bytes]:
    if arch is PPC64LE:
        return power_outside(core, BOOT)
    # boot.img loads the core image from the sector after it, unless it is told otherwise.
    _check_core(core, CORE.start * MIB - SECTOR)
    code = (template / "grub" / PLATFORMS[arch.name].name / "boot.img").read_bytes()
    return {0: code[:BOOT_CODE], TABLE: table(BOOT), SECTOR: core}


def _check_core(core: bytes, room: int) -> None:
    if len(core) > room:
        raise ToolError(
            f"GRUB's core image has {len(core)} bytes, and {room} are there for it",
            "take modules out of PLATFORMS, and build the base disk again",
        )


def table(*partitions: Partition) -> bytes:
    """Return the partition table, from its first entry to the end of the sector."""
    return b"".join(partition.entry() for partition in partitions).ljust(64, b"\0") + b"\x55\xaa"


def make_file_system(tree: Path, image: Path, partition: Partition) -> None:
    """Make /boot of a folder, in a partition of a disk's image.

    Raises ToolError (ENVIRONMENT) when that fails.
    """
    # What is written there belongs to root in the guest, whichever user starts it.
    first = [] if os.geteuid() == 0 else ["fakeroot", "--"]
    options = f"offset={partition.start * MIB},root_owner=0:0"
    result = process.run(
        [
            *first,
            preflight.which("mke2fs") or "mke2fs",
            *("-q", "-F", "-t", "ext4", "-L", LABEL, "-U", UUID, "-m", "0", "-E", options),
            *("-d", tree, image, f"{partition.size}M"),
        ]
    )
    if result.returncode != 0:
        raise ToolError(
            f"mke2fs failed: {process.last_line(result.output)}",
            "check the free disk space, then try again",
            ExitCode.ENVIRONMENT,
        )
