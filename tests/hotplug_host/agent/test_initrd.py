"""The initial RAM disk of an installed kernel: made by the host's tool, and checked for what root is on."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hotplug_host.errors import ExitCode
from tests.fakes.devices import Tree
from tests.fakes.fake_lpar import FakeLpar, files_below
from tests.hotplug_host.agent.conftest import RELEASE, TAR, Ask

FOLDER = f"boot/hotplug-acceleration/{RELEASE}"
INITRD = f"{FOLDER}/initrd.img"
MODULES = ("ibmvscsi", "sd_mod", "dm-mod", "xfs", "ata_generic", "ata_piix")
#: What modprobe of the kernel under test knows; a disk's adapter is driven by one of two.
ALIASES = """case "$4" in
fs-xfs) echo xfs;; dm-mod) echo dm_mod;; vio:scsi) echo ibmvscsi;; scsi:t-0x00*) echo sd_mod;;
vio:sata) echo ata_generic; echo ata_piix;; *) echo "FATAL: Module $4 not found." >&2; exit 1;; esac"""


@pytest.fixture
def on_lvm(debian: FakeLpar) -> FakeLpar:
    """A Debian host whose root is XFS on LVM on virtual SCSI, with the package of a kernel in place."""
    debian.put(f"boot/config-{RELEASE}", "CONFIG_SMP=y")
    for name in MODULES:
        debian.put(f"lib/modules/{RELEASE}/kernel/{name}.ko.xz", "")
    tree = Tree(debian.root)
    tree.driven("vio/30000002", "ibmvscsi", "vio:scsi")
    disk = tree.driven("vio/30000002/host0/target0:0:0/0:0:0:0", "sd", "scsi:t-0x00")
    (debian.root / "dev").mkdir(exist_ok=True)
    tree.disk("sda", disk, "sda3")
    tree.dm("dm-0", "LVM-abc", "vg0-root", "sda3")
    debian.put("proc/mounts", "/dev/mapper/vg0-root / xfs rw 0 0\n")
    debian.program("modprobe", ALIASES)
    return debian


@pytest.fixture
def make(on_lvm: FakeLpar, entry: Ask) -> Ask:
    """Call the step for the kernel's entry, with an initial RAM disk that is made."""
    return lambda action: entry(on_lvm, action, "--initrd=make")


def initramfs_tools(host: FakeLpar, *modules: str) -> None:
    """Install a mkinitramfs that packs these modules."""
    names = "\\n".join(f"usr/lib/modules/{RELEASE}/kernel/{name}.ko.xz" for name in modules)
    host.program("mkinitramfs", f'test "$3" = {RELEASE} && printf "{names}\\n" > "$2"')
    host.program("lsinitramfs", 'cat "$1"')


def dracut(host: FakeLpar, *modules: str) -> None:
    """Install a dracut that packs these modules; its list has more about each file."""
    lines = "\\n".join(
        f"-rw-r--r--   1 root     root   101 Jan  1  1970 usr/lib/modules/{RELEASE}/{name}.ko.zst"
        for name in modules
    )
    host.program("dracut", f'test "$3" = {RELEASE} && printf -- "{lines}\\n" > "$2"')
    host.program("lsinitrd", 'cat "$1"')


@pytest.mark.slow
@pytest.mark.parametrize("install", [initramfs_tools, dracut])
def test_it_is_made_once_beside_the_kernel_and_removed_with_it(
    on_lvm: FakeLpar, make: Ask, install: Callable[..., None]
) -> None:
    install(on_lvm, *MODULES[:-1])
    assert make("look")[0] == 0
    for changed in (True, False):
        code, answer = make("once")
        assert (code, answer["changed"]) == (0, changed), answer
    assert (on_lvm.root / INITRD).is_file()
    assert f"\tinitrd '/hotplug-acceleration/{RELEASE}/initrd.img'\n" in on_lvm.get("boot/grub/custom.cfg")
    assert make("remove")[1]["changed"] is True
    assert not [path for path in files_below(on_lvm.root) if RELEASE in str(path)]


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (("sd_mod", "dm-mod", "xfs"), "without ibmvscsi, which the host's root is on: name them in "),
        (("ibmvscsi", "sd_mod"), "without xfs, dm_mod, which"),
    ],
)
def test_one_that_cannot_mount_root_is_refused_before_anything_boots(
    on_lvm: FakeLpar, make: Ask, packed: tuple[str, ...], words: str
) -> None:
    initramfs_tools(on_lvm, *packed)
    code, answer = make("once")
    assert code == ExitCode.OPERATION
    assert words in answer["error"]
    assert not list((on_lvm.root / FOLDER).glob("initrd*"))
    assert not (on_lvm.root / "boot/grub/custom.cfg").exists()


@pytest.mark.slow
def test_one_of_several_drivers_of_a_disk_is_enough(on_lvm: FakeLpar, make: Ask) -> None:
    on_lvm.put("sys/devices/vio/30000002/modalias", "vio:sata")
    initramfs_tools(on_lvm, "ata_piix", "sd_mod", "dm-mod", "xfs")
    assert make("once")[0] == 0
    initramfs_tools(on_lvm, "sd_mod", "dm-mod", "xfs")
    make("remove")
    on_lvm.put(f"{FOLDER}/vmlinux", "kernel")
    for name in MODULES:
        on_lvm.put(f"lib/modules/{RELEASE}/kernel/{name}.ko.xz", "")
    assert "without ata_generic or ata_piix, which" in make("once")[1]["error"]


def test_a_driver_that_is_built_in_is_no_module(on_lvm: FakeLpar, make: Ask) -> None:
    (on_lvm.root / f"lib/modules/{RELEASE}/kernel/ibmvscsi.ko.xz").unlink()
    initramfs_tools(on_lvm, "sd_mod", "dm-mod", "xfs")
    assert make("once")[0] == 0


def test_a_host_without_a_tool_is_told_so_before_anything_is_installed(on_lvm: FakeLpar, make: Ask) -> None:
    code, answer = make("look")
    assert code == ExitCode.ENVIRONMENT
    assert answer["error"].startswith("neither mkinitramfs nor dracut is on the host")


@pytest.mark.parametrize("action", ["once", "remove"])
def test_what_was_made_in_part_is_no_initial_ram_disk(on_lvm: FakeLpar, make: Ask, action: str) -> None:
    on_lvm.put(f"{INITRD}.new", "half")
    on_lvm.program("mkinitramfs", 'echo "W: something" ; echo "No space left on device" >&2; exit 1')
    code, answer = make(action)
    assert not list((on_lvm.root / FOLDER).glob("initrd*"))
    if action == "once":
        assert code == ExitCode.OPERATION
        assert answer["error"] == "mkinitramfs ended with exit code 1: No space left on device"


def test_what_is_left_beside_a_package_that_is_gone_is_removed(on_lvm: FakeLpar, entry: Ask) -> None:
    on_lvm.put(INITRD, "disk")
    (on_lvm.root / FOLDER / "vmlinux").unlink()
    package = f"--package={json.dumps({**TAR, 'format': 'deb'})}"
    for changed in (True, False):
        code, answer = entry(on_lvm, "remove", package)
        assert (code, answer["changed"]) == (0, changed), answer
    assert not (on_lvm.root / FOLDER).exists()


def test_a_kernel_that_was_removed_meanwhile_is_not_booted(on_lvm: FakeLpar, make: Ask) -> None:
    """A run that gave up has undone it all, while the host's tool went on."""
    initramfs_tools(on_lvm, *MODULES)
    tool = on_lvm.root / "bin/mkinitramfs"
    tool.write_text(f"{tool.read_text()}rm {on_lvm.root / FOLDER}/vmlinux\n")
    code, answer = make("once")
    assert code != 0
    assert "vmlinux cannot be read" in answer["error"]
    assert "next_entry" not in (on_lvm.get("grubenv.json") if on_lvm.has("grubenv.json") else "")
