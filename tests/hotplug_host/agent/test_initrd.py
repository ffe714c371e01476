"""The initial RAM disk of an installed kernel: made by the host's tool, and checked for what root is on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotplug_host.errors import ExitCode
from tests.fakes import fake_lpar
from tests.fakes.devices import Tree
from tests.fakes.fake_lpar import FakeLpar, files_below
from tests.hotplug_host.agent.conftest import Step

RELEASE = "6.12-patched"
FOLDER = f"boot/hotplug-acceleration/{RELEASE}"
INITRD = f"{FOLDER}/initrd.img"
MODULES = ("ibmvscsi", "sd_mod", "dm-mod", "xfs", "ata_generic", "ata_piix")
SHA256 = hashlib.sha256(b"kernel\n").hexdigest()
TAR = {"format": "tar", "name": "linux-trial", "file": "linux-trial.tar.gz"}
#: What modprobe of the kernel under test knows; a disk's adapter is driven by one of two.
ALIASES = """case "$4" in
fs-xfs) echo xfs;; dm-mod) echo dm_mod;; vio:scsi) echo ibmvscsi;; scsi:t-0x00*) echo sd_mod;;
vio:sata) echo ata_generic; echo ata_piix;; *) echo "FATAL: Module $4 not found." >&2; exit 1;; esac"""
Ask = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeLpar:
    """A Debian host whose root is XFS on LVM on virtual SCSI, with the package of a kernel in place."""
    made = fake_lpar.build(tmp_path)
    monkeypatch.setenv("PATH", f"{made.root / 'bin'}:/usr/bin:/bin")
    made.distribution("ID=debian\n", "grub")
    made.put(f"{FOLDER}/vmlinux", "kernel")
    made.put(f"boot/config-{RELEASE}", "CONFIG_SMP=y")
    for name in MODULES:
        made.put(f"lib/modules/{RELEASE}/kernel/{name}.ko.xz", "")
    tree = Tree(made.root)
    tree.driven("vio/30000002", "ibmvscsi", "vio:scsi")
    disk = tree.driven("vio/30000002/host0/target0:0:0/0:0:0:0", "sd", "scsi:t-0x00")
    (made.root / "dev").mkdir(exist_ok=True)
    tree.disk("sda", disk, "sda3")
    tree.dm("dm-0", "LVM-abc", "vg0-root", "sda3")
    made.put("proc/mounts", "/dev/mapper/vg0-root / xfs rw 0 0\n")
    made.program("modprobe", ALIASES)
    return made


@pytest.fixture
def entry(step: Step, host: FakeLpar) -> Ask:
    """Call the step for the kernel's entry."""

    def call(action: str) -> tuple[int, dict[str, Any]]:
        return step(
            "boot-entry",
            f"--action={action}",
            f"--package={json.dumps(TAR)}",
            f"--release={RELEASE}",
            "--image=vmlinux",
            f"--sha256={SHA256}",
            "--cmdline=root=/dev/mapper/vg0-root",
            "--initrd=make",
            f"--sysroot={host.root}",
        )

    return call


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


@pytest.mark.parametrize("install", [initramfs_tools, dracut])
def test_it_is_made_once_beside_the_kernel_and_removed_with_it(
    host: FakeLpar, entry: Ask, install: Callable[..., None]
) -> None:
    install(host, *MODULES[:-1])
    assert entry("look")[0] == 0
    for changed in (True, False):
        code, answer = entry("once")
        assert (code, answer["changed"]) == (0, changed), answer
    assert (host.root / INITRD).is_file()
    assert f"\tinitrd '/hotplug-acceleration/{RELEASE}/initrd.img'\n" in host.get("boot/grub/custom.cfg")
    assert entry("remove")[1]["changed"] is True
    assert not [path for path in files_below(host.root) if RELEASE in str(path)]


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (("sd_mod", "dm-mod", "xfs"), "without ibmvscsi, which the host's root is on: name them in "),
        (("ibmvscsi", "sd_mod"), "without xfs, dm_mod, which"),
    ],
)
def test_one_that_cannot_mount_root_is_refused_before_anything_boots(
    host: FakeLpar, entry: Ask, packed: tuple[str, ...], words: str
) -> None:
    initramfs_tools(host, *packed)
    code, answer = entry("once")
    assert code == ExitCode.OPERATION
    assert words in answer["error"]
    assert not list((host.root / FOLDER).glob("initrd*"))
    assert not (host.root / "boot/grub/custom.cfg").exists()


def test_one_of_several_drivers_of_a_disk_is_enough(host: FakeLpar, entry: Ask) -> None:
    host.put("sys/devices/vio/30000002/modalias", "vio:sata")
    initramfs_tools(host, "ata_piix", "sd_mod", "dm-mod", "xfs")
    assert entry("once")[0] == 0
    initramfs_tools(host, "sd_mod", "dm-mod", "xfs")
    entry("remove")
    host.put(f"{FOLDER}/vmlinux", "kernel")
    for name in MODULES:
        host.put(f"lib/modules/{RELEASE}/kernel/{name}.ko.xz", "")
    assert "without ata_generic or ata_piix, which" in entry("once")[1]["error"]


def test_a_driver_that_is_built_in_is_no_module(host: FakeLpar, entry: Ask) -> None:
    (host.root / f"lib/modules/{RELEASE}/kernel/ibmvscsi.ko.xz").unlink()
    initramfs_tools(host, "sd_mod", "dm-mod", "xfs")
    assert entry("once")[0] == 0


def test_a_host_without_a_tool_is_told_so_before_anything_is_installed(host: FakeLpar, entry: Ask) -> None:
    code, answer = entry("look")
    assert code == ExitCode.ENVIRONMENT
    assert answer["error"].startswith("neither mkinitramfs nor dracut is on the host")


@pytest.mark.parametrize("action", ["once", "remove"])
def test_what_was_made_in_part_is_no_initial_ram_disk(host: FakeLpar, entry: Ask, action: str) -> None:
    host.put(f"{INITRD}.new", "half")
    host.program("mkinitramfs", 'echo "W: something" ; echo "No space left on device" >&2; exit 1')
    code, answer = entry(action)
    assert not list((host.root / FOLDER).glob("initrd*"))
    if action == "once":
        assert code == ExitCode.OPERATION
        assert answer["error"] == "mkinitramfs ended with exit code 1: No space left on device"


def test_what_is_left_beside_a_package_that_is_gone_is_removed(host: FakeLpar, step: Step) -> None:
    host.put(INITRD, "disk")
    (host.root / FOLDER / "vmlinux").unlink()
    package = {**TAR, "format": "deb"}
    words = ("--action=remove", f"--package={json.dumps(package)}", f"--release={RELEASE}", "--image=vmlinux")
    for changed in (True, False):
        code, answer = step("boot-entry", *words, f"--sysroot={host.root}")
        assert (code, answer["changed"]) == (0, changed), answer
    assert not (host.root / FOLDER).exists()


def test_a_kernel_that_was_removed_meanwhile_is_not_booted(host: FakeLpar, entry: Ask) -> None:
    """A run that gave up has undone it all, while the host's tool went on."""
    initramfs_tools(host, *MODULES)
    tool = host.root / "bin/mkinitramfs"
    tool.write_text(f"{tool.read_text()}rm {host.root / FOLDER}/vmlinux\n")
    code, answer = entry("once")
    assert code != 0
    assert "vmlinux cannot be read" in answer["error"]
    assert "next_entry" not in (host.get("grubenv.json") if host.has("grubenv.json") else "")
