"""An x86-64 guest that boots like a server: UEFI, GRUB, Debian's own kernel, root on XFS and LVM."""

from collections.abc import Iterator

import pytest

from hotplug_common.guest import installed, qemu
from hotplug_host.sysfs import SMT_CONTROL
from tests.lab.labtools import BOOT_ID, Lab, reboot

# Its disk may have to be made first.
pytestmark = [pytest.mark.lab, pytest.mark.hosts, pytest.mark.timeout(2700)]

GUEST = "server"


@pytest.fixture(scope="module")
def guest(lab: Lab) -> Iterator[str]:
    lab.must("up", GUEST, "--like", qemu.SERVER, "--cores", "4", timeout=2400)
    yield GUEST
    lab.must("down", GUEST)


def test_firmware_and_boot_loader_start_what_is_installed(guest: str, lab: Lab) -> None:
    def inside(command: str) -> str:
        return lab.must("ssh", guest, "--", command, timeout=300).strip()

    assert inside("findmnt --noheadings --output SOURCE,FSTYPE /").split() == [installed.ROOT, "xfs"]
    assert inside("ls -d /sys/firmware/efi")
    assert inside("systemctl --failed --no-legend") == ""
    assert "policy drop" in inside("nft list ruleset")
    for level, online in (("off", "0,2,4,6"), ("on", "0-7")):
        assert inside(f"echo {level} > {SMT_CONTROL}; cat /sys/devices/system/cpu/online") == online
    release, boot = inside("uname -r"), inside(BOOT_ID)
    assert release.endswith("-amd64")

    inside("update-grub")
    reboot(lab, guest)

    assert inside(BOOT_ID) != boot
    assert inside("uname -r") == release
