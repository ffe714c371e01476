"""deploy.yml by a real GRUB, on a POWER guest that firmware boots: one time, by default, and not at all."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.deployment import RUNS, Deployment, ready
from tests.lab.labtools import Lab, reboot

# Both kernels and the base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.hosts, pytest.mark.timeout(3600)]

GUEST = "booted"
#: What the guest runs, boots by default, and has in /boot. The log of an installed package is none of it.
ASK = (
    f"{RUNS}; grub-editenv list;"
    " find /boot -type f -printf '%p:%s\\n' | sort;"
    " find /var/lib/hotplug-acceleration -type f 2>/dev/null | sort;"
    " dpkg-query --show --showformat='${Package}:${db:Status-Status}\\n'"
    " 'linux-hotplug-acceleration*' 2>/dev/null"
    " | grep -v :not-installed; true"
)
#: What leaves 2 MiB of /boot, too little for any kernel.
FILL = (
    "fallocate --length"
    " $(($(findmnt --bytes --noheadings --output AVAIL --target /boot) - 2 * 1048576)) /boot/filler"
)


@pytest.fixture(scope="module")
def deployment(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with ready(lab, GUEST, ASK, tmp_path_factory.mktemp("kernels"), "--boot-loader", "grub") as deployment:
        yield deployment


def words(deployment: Deployment) -> list[str]:
    """The guest's kernel command line, word by word."""
    return deployment.ssh("cat /proc/cmdline").split()


@contextmanager
def full_boot(deployment: Deployment) -> Iterator[None]:
    """Leave next to no room in /boot meanwhile."""
    deployment.ssh(FILL)
    try:
        yield
    finally:
        deployment.ssh("rm /boot/filler")


def test_the_firmware_boots_grub_and_grub_the_kernel(deployment: Deployment) -> None:
    pid = deployment.lab.qemu(GUEST)
    assert pid is not None
    assert "-kernel" not in deployment.lab.processes()[pid]
    (image, *others) = words(deployment)
    assert image == f"BOOT_IMAGE=/vmlinux-{deployment.default}"
    assert "console=hvc0" in others
    assert deployment.ssh("findmnt --noheadings --output FSTYPE,LABEL /boot").split() == [
        *("ext4", "lpar-lab-boot")
    ]

    # From here on with a grub.cfg that Debian's own grub-mkconfig wrote; it says the same.
    deployment.ssh("update-grub")
    assert "### BEGIN /etc/grub.d/00_header ###" in deployment.ssh("cat /boot/grub/grub.cfg")
    reboot(deployment.lab, GUEST)
    assert set(words(deployment)) - {"ro"} == {image, *others}


def test_a_kernel_is_booted_one_time_and_taken_away_again(deployment: Deployment) -> None:
    (boot_id, *before) = deployment.looks()

    code, said = deployment.play("--check", "--diff", boot="once")
    assert code == 0, said
    assert deployment.looks() == [boot_id, *before]

    code, said = deployment.play(boot="once")
    assert code == 0, said
    (deployed, release, online, *there) = deployment.looks()
    assert deployed != boot_id
    assert [release, online] == [deployment.release, before[1]]
    assert f"/boot/grub/custom.cfg:{len(deployment.ssh('cat /boot/grub/custom.cfg'))}" in there
    (image, *others) = words(deployment)
    assert image == f"BOOT_IMAGE=/hotplug-acceleration/{release}/vmlinux"
    assert "hotplug_acceleration.variant=patched" in others

    reboot(deployment.lab, GUEST)
    (_, release, *_) = deployment.looks()
    assert release == deployment.default, "next_entry holds for one boot"

    deployment.roll_back()
    (_, *left) = deployment.looks()
    assert left == before


def test_the_default_survives_reboots_until_it_is_rolled_back(deployment: Deployment) -> None:
    (earlier,) = re.findall(
        r"^menuentry .*\$menuentry_id_option '([^']+)'",
        deployment.ssh("cat /boot/grub/grub.cfg"),
        re.MULTILINE,
    )
    deployment.ssh(f"grub-set-default '{earlier}'")
    (_, *before) = deployment.looks()
    assert f"saved_entry={earlier}" in before

    code, said = deployment.play(boot="default", deploy_default_confirmed=deployment.release)
    assert code == 0, said
    # As an update of the distribution's kernel does: it neither finds ours nor loses our entry.
    deployment.ssh("update-grub")
    reboot(deployment.lab, GUEST)
    (_, release, _, *there) = deployment.looks()
    assert release == deployment.release
    assert f"saved_entry=hotplug-acceleration-{deployment.release}" in there

    deployment.roll_back()
    (_, *left) = deployment.looks()
    assert left == before
    deployment.ssh("grub-editenv - unset saved_entry")


def test_a_rollback_ends_on_the_default_kernel_that_an_update_brought_meanwhile(
    deployment: Deployment,
) -> None:
    before = deployment.looks()
    was = deployment.default
    new = f"{was[:-1]}{'0' if was[-1] != '0' else '1'}"
    code, said = deployment.play(boot="once")
    assert code == 0, said
    # The release is all that differs in the new image: it is as long as the old one.
    deployment.ssh(
        f"cd /boot && LC_ALL=C sed 's/{was}/{new}/g' vmlinux-{was} > vmlinux-{new}"
        f" && mv vmlinux-{was} /root/ && update-grub"
    )

    deployment.roll_back()

    (boot_id, release, *left) = deployment.looks()
    assert release == new
    theirs = ("/boot/vmlinux-", "/boot/grub/grub.cfg")
    assert [line for line in left if not line.startswith(theirs)] == [
        line for line in before[2:] if not line.startswith(theirs)
    ]
    deployment.roll_back()
    assert deployment.looks()[0] == boot_id, "a second one finds nothing to do"

    deployment.ssh(f"mv /root/vmlinux-{was} /boot/ && rm /boot/vmlinux-{new} && update-grub")
    reboot(deployment.lab, GUEST)
    assert deployment.looks()[1:] == before[1:]


def test_a_kernel_that_panics_falls_back_through_grub(deployment: Deployment) -> None:
    deployment.falls_back_from_a_panic(boot="once")


def test_a_default_that_grub_does_not_keep_is_refused_before_anything_is_done(deployment: Deployment) -> None:
    deployment.ssh("echo GRUB_DEFAULT=0 >> /etc/default/grub && update-grub")
    before = deployment.looks()
    code, said = deployment.play(boot="default", deploy_default_confirmed=deployment.release)
    assert code == 2, said
    assert "GRUB_DEFAULT is not 'saved' in /etc/default/grub: set it and run grub-mkconfig" in said
    assert deployment.looks() == before
    deployment.ssh("sed -i '$d' /etc/default/grub && update-grub")


def test_a_full_boot_is_refused_with_what_is_needed(deployment: Deployment) -> None:
    with full_boot(deployment):
        before = deployment.looks()
        needed = json.loads((deployment.folder / "artifact.json").read_text())["package"]["installed_bytes"]
        code, said = deployment.play(boot="once")
        assert code == 2, said
        mib = -(-needed // (1 << 20)) + 1
        assert re.search(rf"/boot has [12] MiB free and the kernel's package needs {mib} MiB there; ", said)
        assert deployment.looks() == before


def test_a_boot_that_fills_up_meanwhile_is_undone(deployment: Deployment, tmp_path: Path) -> None:
    # A package of before its size was written down: nothing can be checked beforehand.
    old = tmp_path / "old"
    shutil.copytree(deployment.folder, old)
    described = json.loads((old / "artifact.json").read_text())
    del described["package"]["installed_bytes"]
    (old / "artifact.json").write_text(json.dumps(described))
    with full_boot(deployment):
        before = deployment.looks()
        code, said = deployment.play(folder=old, boot="once")
        assert code == 2, said
        assert "cannot be installed: dpkg: error processing archive" in said
        assert "write (No space left on device)" in said
        assert deployment.looks() == before
