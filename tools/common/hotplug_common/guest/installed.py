"""The base disks of guests that boot like hosts: Debian's own kernel and initial RAM disk, started by GRUB.

/boot is on ext4, the root file system on XFS in a logical volume. What firmware starts comes before them: a
PReP partition with GRUB for a partition of PowerVM, an EFI system partition for an x86-64 server.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cmp_to_key
from pathlib import Path

from hotplug_common import debian, process
from hotplug_common.arch import PPC64LE, X86_64, Arch
from hotplug_common.debian import Apt, Suite
from hotplug_common.guest import grub, qemu, rootfs
from hotplug_common.guest.grub import MIB, Partition, Platform
from hotplug_common.guest.rootfs import WORK, must
from hotplug_common.needs import Need
from hotplug_common.paths import Paths
from hotplug_common.ui import Say
from hotplug_host.errors import ExitCode, ToolError

INITRAMFS_TOOLS, DRACUT = "initramfs-tools", "dracut"
INITRDS = {INITRAMFS_TOOLS: (INITRAMFS_TOOLS,), DRACUT: (DRACUT, f"{INITRAMFS_TOOLS}-core")}
"""What may make the initial RAM disks of kernels, and its packages. kdump's is made by mkinitramfs always."""
GROUP, VOLUME = "vg0", "root"
ROOT = f"/dev/mapper/{GROUP}-{VOLUME}"
BOOT = Partition(grub.TYPE_LINUX, grub.BOOT.start, 1015)
"""/boot: room for Debian's kernel and two more with their initial RAM disks."""
PHYSICAL = Partition(grub.TYPE_LVM, BOOT.start + BOOT.size, 5 * 1024)
"""The physical volume."""
CRASH_MEMORY = 320
"""MiB that are kept for kdump's kernel: what Debian's kdump-tools takes on POWER with less than 4 GiB."""
MEMORY = 3072
"""MiB that Debian's kernel and an initial RAM disk with most modules take to boot 16 CPUs, and kdump."""
ESP = Partition(grub.TYPE_EFI, grub.CORE.start, grub.CORE.size)
"""The EFI system partition, where others have GRUB's core image."""
EFI = Platform(
    "x86_64-efi", "grub-efi-amd64-bin", "grub.efi", ("ext2", "part_msdos", "search_label"), "vmlinuz"
)
KERNEL_RELEASE = "trixie"
"""The Debian release whose kernel the guest runs: that of the series' own line, whatever the rest is of."""
KERNEL_DEB = "kernel.deb"
FSTAB = f"""{ROOT} / xfs defaults,noatime 0 0
LABEL={grub.LABEL} /boot ext4 defaults 0 2
"""
FIREWALL = """#!/usr/sbin/nft -f
flush ruleset
table inet filter {
\tchain input {
\t\ttype filter hook input priority filter; policy drop;
\t\tct state established,related accept
\t\tiif lo accept
\t\ttcp dport 22 accept
\t\tudp dport 68 accept
\t}
}
"""
FIREWALL_ENABLED = "etc/systemd/system/sysinit.target.wants/nftables.service"
LVM_CONFIG = (
    'devices {{ use_devicesfile=0 filter=["a|^{device}$|","r|.*|"] }}'
    " activation {{ udev_sync=0 udev_rules=0 }} backup {{ backup=0 archive=0 }}"
)
"""The machine's own volumes are neither read nor written, and no copy of the metadata is kept there."""


def escaped(name: str) -> str:
    """Return a file name as systemd has it in the name of a unit."""
    return name.replace("-", r"\x2d")


def newest_first(names: Sequence[str], known: re.Pattern[str]) -> list[str]:
    """Return those names of packages that are KNOWN as kernels', the highest release first."""

    def order(one: str, other: str) -> int:
        lower = process.run(["dpkg", "--compare-versions", one, "lt", other]).returncode == 0
        return 1 if lower else -1

    releases = sorted((found[1] for name in names if (found := known.fullmatch(name))), key=cmp_to_key(order))
    return [f"linux-image-{release}" for release in releases]


class Style(rootfs.Style):
    """A base disk with Debian's kernel on it, as Debian's installer leaves it."""

    arch: Arch
    kernel_name: re.Pattern[str]
    """Of the kernel's package; also an expression that apt understands."""
    seed_link: str
    """Name that udev gives the seed disk on this guest's bus."""
    words = f"crashkernel={CRASH_MEMORY}M"
    """What Debian's kernel gets on its command line beside the lab's."""
    packages: tuple[str, ...] = (
        "kdump-tools",
        "linux-base",
        "lvm2",
        "makedumpfile",
        "nftables",
        "xfsprogs",
        "zstd",
    )
    needs: tuple[Need, ...] = (
        Need("losetup", "mount"),
        Need("pvcreate", "lvm2"),
        Need("mkfs.xfs", "xfsprogs"),
    )
    size = f"{PHYSICAL.start + PHYSICAL.size}M"
    quick = False

    def __init__(self, initrd: str = INITRAMFS_TOOLS) -> None:
        self.initrd = initrd
        self.packages = (*INITRDS[initrd], *self.packages)
        if initrd == DRACUT:
            # It looks for no logical volume that it is not told of.
            self.words = f"{self.words} rd.lvm.lv={GROUP}/{VOLUME}"

    def of(self, arch: Arch) -> str:
        """Name the disks of this style for an architecture, in file names."""
        return super().of(arch) + (f"-{DRACUT}" if self.initrd == DRACUT else "")

    def check(self) -> None:
        """Raise ToolError where root's rights to loop devices are missing."""
        if os.geteuid() != 0:
            raise ToolError(
                "a disk with a logical volume is made on loop devices, which only root may set up",
                f"build it once as root: sudo lpar-lab up NAME --like {self.name}",
                ExitCode.ENVIRONMENT,
            )

    def command_line(self) -> str:
        """Return the command line of Debian's kernel, whose configuration has consoles that POWER has not."""
        return qemu.kernel_command_line(self.arch, self.words, root=ROOT, quick=self.quick)

    def files(self) -> dict[str, bytes]:
        """Return the files laid over the packages' own: the plain disk's, with this one's devices."""
        plain = super().files()
        unit = plain[rootfs.SEED_UNIT].decode()
        for form in (str, escaped):
            unit = unit.replace(form("virtio-lab-seed"), form(self.seed_link))
        return plain | {
            rootfs.SEED_UNIT: unit.encode(),
            "etc/fstab": FSTAB.encode(),
            "etc/nftables.conf": FIREWALL.encode(),
            grub.DEFAULTS: grub.defaults(self.command_line()),
        }

    def links(self) -> dict[str, str]:
        """Return the links laid over the packages' own: path inside the guest to target."""
        return super().links() | {FIREWALL_ENABLED: f"{rootfs.PACKAGED}/nftables.service"}

    def hooks(self, arch: Arch) -> list[str]:
        """Return what mmdebstrap does in the installed system; a hook there makes the initial RAM disk."""
        kernel = f"/root/{KERNEL_DEB}"
        return [
            *super().hooks(arch),
            f'cp "${WORK}"/{KERNEL_DEB} "$1"{kernel}',
            f'chroot "$1" dpkg --install {kernel}',
            f'rm "$1"{kernel}',
        ]

    def prepare(self, arch: Arch, work: Path, paths: Paths, say: Say) -> None:
        """Fetch the newest of Debian's kernels that the mirror has; apt checks it against the signed lists.

        Raises ToolError (ENVIRONMENT) when the mirror has none.
        """
        lines = debian.source_lines([Suite(debian.MAIN, KERNEL_RELEASE)], debian.mirrors())
        apt = Apt(paths.apt / f"{KERNEL_RELEASE}-{arch.debian}", lines, arch.debian)
        what = f"a kernel of Debian {KERNEL_RELEASE} for {arch.debian}"
        if not apt.refresh(say):
            raise ToolError(f"the archive cannot be read for {what}", "check the network, then try again")
        for name in newest_first(apt.names(f"^{self.kernel_name.pattern}$"), self.kernel_name):
            package = apt.candidate(name)
            if package is None:
                continue
            say(f"downloading {name} {package.version}")
            try:
                apt.download(package, work).rename(work / KERNEL_DEB)
            except ToolError as error:
                # An index may name a kernel that the mirror does not have any more.
                say(error.message)
            else:
                return
        raise ToolError(f"the mirror lacks {what}", "wait until the mirror has settled, then try again")

    def pack(self, root_tar: Path, finished: Path, work: Path) -> dict[str, str]:
        """Make the disk with its partitions; return the release of the kernel on it."""
        image = finished / "disk.img"
        boot = work / "boot"
        with image.open("wb") as disk:
            disk.truncate((PHYSICAL.start + PHYSICAL.size) * MIB)
        with logical_volume(image, PHYSICAL) as device:
            must(["mkfs.xfs", "-q", "-L", VOLUME, device])
            with mounted(device, work / "root") as root:
                must(["tar", "-x", "--numeric-owner", "--exclude=./dev/*", "-f", root_tar, "-C", root])
                shutil.copytree(root / "boot", boot, symlinks=True)
                for path in (root / "boot").iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        release = only_release(boot, grub.PLATFORMS[self.arch.name].kernel)
        (boot / "grub/grub.cfg").write_text(
            grub.config(self.arch, release, self.command_line(), f"initrd.img-{release}")
        )
        grub.make_file_system(boot, image, BOOT)
        self.make_bootable(image, boot, work)
        return {"kernel": release}

    def make_bootable(self, image: Path, boot: Path, work: Path) -> None:
        """Write the partition table, and what the firmware starts; BOOT has what grub-install made."""
        raise NotImplementedError


class PowerVM(Style):
    """The disk of a partition of PowerVM."""

    name = qemu.POWERVM
    arch = PPC64LE
    kernel_name = re.compile(r"linux-image-([0-9.]+\+deb[0-9]+-powerpc64le)")
    seed_link = "scsi-0QEMU_QEMU_HARDDISK_lab-seed"
    words = f"{Style.words} nmi_watchdog=0"
    """Debian's kernel interrupts a CPU that stands still by H_SIGNAL_SYS_RESET. An emulated CPU stands still
    when its host is busy, and QEMU 10.0 may never return from that call."""

    def make_bootable(self, image: Path, boot: Path, work: Path) -> None:
        """Put GRUB into a PReP partition."""
        platform = grub.PLATFORMS[PPC64LE.name]
        core = (boot / "grub" / platform.name / platform.core).read_bytes()
        grub.write_outside(image, grub.power_outside(core, BOOT, PHYSICAL))


class Server(Style):
    """The disk of an x86-64 server with UEFI."""

    name = qemu.SERVER
    arch = X86_64
    kernel_name = re.compile(r"linux-image-([0-9.]+\+deb[0-9]+-amd64)")
    seed_link = "ata-QEMU_DVD-ROM_lab-seed"
    packages = (*Style.packages, EFI.package)
    needs = (*Style.needs, Need("mformat", "mtools"))

    def hooks(self, arch: Arch) -> list[str]:
        """Return what mmdebstrap does in the installed system: GRUB for UEFI comes first."""
        return [*grub.image_hooks(EFI), *super().hooks(arch)]

    def make_bootable(self, image: Path, boot: Path, work: Path) -> None:
        """Put GRUB where firmware looks that has no boot entries."""
        core = boot / "grub" / EFI.name / EFI.core
        grub.write_outside(image, {grub.TABLE: grub.table(ESP, BOOT, PHYSICAL)})
        # Not mounted: the machine's kernel may lack FAT.
        where = ["-i", f"{image}@@{ESP.start * MIB}"]
        must(["mformat", *where, "-T", str(ESP.size * MIB // grub.SECTOR), "-h", "64", "-s", "32", "::"])
        must(["mmd", *where, "::/EFI", "::/EFI/BOOT"])
        must(["mcopy", *where, core, "::/EFI/BOOT/BOOTX64.EFI"])


def only_release(boot: Path, kernel: str) -> str:
    """Return the release of the one kernel in a folder; KERNEL is what its image's name begins with.

    Raises ToolError (INPUT) where there is not one kernel with an initial RAM disk.
    """
    releases = [path.name.removeprefix(f"{kernel}-") for path in sorted(boot.glob(f"{kernel}-*"))]
    if len(releases) != 1 or not (boot / f"initrd.img-{releases[0]}").is_file():
        raise ToolError(
            f"/boot of the new disk holds {', '.join(sorted(path.name for path in boot.iterdir()))}",
            "it should hold one kernel with an initial RAM disk",
            ExitCode.INPUT,
        )
    return releases[0]


@contextmanager
def loop(image: Path, offset: int, size: int) -> Iterator[str]:
    """Give a loop device over a part of an image; both in bytes."""
    words: list[str | Path] = [
        "losetup",
        "--find",
        "--show",
        f"--offset={offset}",
        f"--sizelimit={size}",
        image,
    ]
    device = must(words).strip()
    try:
        yield device
    finally:
        must(["losetup", "--detach", device])


@contextmanager
def logical_volume(image: Path, partition: Partition) -> Iterator[str]:
    """Make a physical volume with one logical volume that fills it; give a loop device over that.

    No device mapper takes part: the logical volume is one piece, and its place follows from the metadata.
    """
    start, size = partition.start * MIB, partition.size * MIB
    with loop(image, start, size) as device:
        options = ["--config", LVM_CONFIG.format(device=device), "--driverloaded", "n"]
        must(["pvcreate", *options, "--yes", "-ff", device])
        must(["vgcreate", *options, GROUP, device])
        inactive = ["--activate", "n", "--zero", "n", "--wipesignatures", "n"]
        must(["lvcreate", *options, *inactive, "--extents", "100%FREE", "--name", VOLUME, GROUP])
        asked = ["--options", "pe_start,lv_size", "--units", "b", "--nosuffix", "--noheadings"]
        first, length = map(int, process.last_line(must(["pvs", *options, *asked, device])).split())
    with loop(image, start + first, length) as device:
        yield device


@contextmanager
def mounted(device: str, folder: Path) -> Iterator[Path]:
    """Mount a file system while its folder is used."""
    folder.mkdir()
    with ExitStack() as undo:
        must(["mount", device, folder])
        undo.callback(must, ["umount", folder])
        yield folder
