"""An x86-64 guest that boots like a server: UEFI, GRUB, Debian's own kernel, root on XFS and LVM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotplug_common.arch import X86_64
from hotplug_common.guest import installed, qemu
from hotplug_host.preflight.system import CRASH_LOADED
from hotplug_host.sysfs import SMT_CONTROL
from tests import ROOT
from tests.lab.hostguest import (
    DRACUT_LISTING,
    INSTALL,
    Guest,
    Package,
    assert_dracut_makes_it_and_leaves_no_file,
    assert_measured_and_gone,
    entry_of,
)
from tests.lab.labtools import BOOT_ID, Lab, reboot, rebooted

# Its disk may have to be made first, and the kernel takes half an hour and more: both are kept.
pytestmark = [pytest.mark.lab, pytest.mark.hosts, pytest.mark.timeout(10800)]

GUEST = "server"
LIMITS = ROOT / "docs/guides/operators/limits.md"


@pytest.fixture(scope="module")
def guest(lab: Lab) -> Iterator[Guest]:
    yield Guest.up(lab, GUEST, X86_64, "--cores", "4", like=qemu.SERVER)
    lab.must("down", GUEST)


@pytest.fixture(scope="module")
def package(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Package:
    return guest.build(tmp_path_factory.mktemp("host"))


def test_firmware_and_boot_loader_start_what_is_installed(guest: Guest) -> None:
    def inside(command: str) -> str:
        return guest.ssh(command).strip()

    assert inside("findmnt --noheadings --output SOURCE,FSTYPE /").split() == [installed.ROOT, "xfs"]
    assert inside("ls -d /sys/firmware/efi")
    assert inside("systemctl --failed --no-legend") == ""
    assert inside(f"cat {CRASH_LOADED}") == "1"
    assert "policy drop" in inside("nft list ruleset")
    for level, online in (("off", "0,2,4,6"), ("on", "0-7")):
        assert inside(f"echo {level} > {SMT_CONTROL}; cat /sys/devices/system/cpu/online") == online
    boot = inside(BOOT_ID)
    assert guest.debian.endswith("-amd64")

    reboot(guest.lab, GUEST)

    assert inside(BOOT_ID) != boot
    assert inside("uname -r") == guest.debian


def test_a_package_is_booted_switches_in_bulk_and_leaves_no_file(
    guest: Guest, package: Package, tmp_path: Path
) -> None:
    assert_measured_and_gone(guest, package, tmp_path)


def test_kexec_starts_the_kernel_while_a_crash_kernel_is_loaded(guest: Guest, package: Package) -> None:
    """And kdump is loaded again on it."""
    guest.send(package)
    guest.ssh(INSTALL, 1800)
    assert guest.ssh(f"cat {CRASH_LOADED}").strip() == "1"
    files = f"/boot/vmlinuz-{package.release} --initrd=/boot/initrd.img-{package.release}"
    guest.ssh(f"kexec --load {files} --reuse-cmdline")
    rebooted(guest.lab, GUEST, lambda: guest.ssh("systemctl --no-block kexec"))
    assert guest.ssh("uname -r").strip() == package.release
    assert guest.ssh(f"cat {CRASH_LOADED}").strip() == "1"
    guest.boot(guest.debian)
    guest.ssh(f"dpkg --purge {package.name}", 1800)


@pytest.fixture(scope="module")
def dracut(lab: Lab) -> Iterator[Guest]:
    """The same with fewer CPUs, where dracut makes the initial RAM disks."""
    yield Guest.up(lab, "dracut", X86_64, "--cores", "2", "--initrd", installed.DRACUT, like=qemu.SERVER)
    lab.must("down", "dracut")


def test_dracut_makes_the_initial_ram_disk_of_a_package(dracut: Guest, package: Package) -> None:
    assert_dracut_makes_it_and_leaves_no_file(dracut, package)


def test_dracuts_initial_ram_disk_without_the_disks_driver_reboots_to_the_default_kernel(
    dracut: Guest, package: Package
) -> None:
    """With the words that the guide gives; without them its shell waits for an operator."""
    (words,) = set(re.findall(r"panic=10 (rd\.shell=\S+ rd\.emergency=\w+)", LIMITS.read_text()))
    before = dracut.ssh(DRACUT_LISTING)
    dracut.ssh(f"sed -i.own 's/^GRUB_CMDLINE_LINUX=\"/&{words} /' /etc/default/grub")
    dracut.send(package)
    dracut.ssh(INSTALL, 1800)
    initrd = f"/boot/initrd.img-{package.release}"
    dracut.ssh(f"dracut --force --omit-drivers 'ahci sd_mod' {initrd} {package.release}", 1800)
    assert "/ahci.ko" not in dracut.ssh(f"lsinitrd {initrd}")
    dracut.ssh(f"grub-reboot '{entry_of(dracut.ssh('cat /boot/grub/grub.cfg'), package.release)}'")
    reboot(dracut.lab, dracut.name)
    assert dracut.ssh("uname -r").strip() == dracut.debian
    assert f"Linux version {package.release}" in dracut.lab.must("console", dracut.name)
    dracut.ssh(f"mv /etc/default/grub.own /etc/default/grub; dpkg --purge {package.name}", 1800)
    assert dracut.ssh(DRACUT_LISTING) == before
