"""A guest's boot disk: what the firmware, GRUB and the guest find on it."""

import struct
import subprocess
from pathlib import Path

import pytest

from hotplug_common import arch
from hotplug_common.guest import grub, qemu
from hotplug_common.kernel.artifact import Artifact, SourceRef
from hotplug_host.errors import ExitCode, ToolError

RELEASE = "6.12.9-stock-0123abcd"
MIB = 1 << 20


@pytest.fixture
def kernel(tmp_path: Path) -> Artifact:
    folder = tmp_path / "kernel"
    folder.mkdir()
    (folder / "vmlinux").write_bytes(b"\x7fELF kernel")
    (folder / "config").write_text("CONFIG_SMP=y\n")
    return Artifact(
        arch="ppc64le",
        line="6.12",
        variant="stock",
        release=RELEASE,
        image=folder / "vmlinux",
        sha256="0",
        config=folder / "config",
        source=SourceRef("linux-source-6.12", "6.12.9-1", "0"),
        patches=[],
        fragments=["base"],
        built="2026-11-20T08:00:00+00:00",
    )


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """What the base disk's GRUB made, of both architectures."""
    for platform in grub.PLATFORMS.values():
        folder = tmp_path / "boot/grub" / platform.name
        folder.mkdir(parents=True)
        (folder / platform.core).write_bytes(b"core" * 200)
    (tmp_path / "boot/grub/i386-pc/boot.img").write_bytes(b"\xeb" * 512)
    return tmp_path / "boot"


def written(template: Path, kernel: Artifact, wanted: arch.Arch) -> bytes:
    image = template.parent / qemu.BOOT
    grub.write(template, wanted, kernel, qemu.kernel_command_line(wanted, grub.words("")), image)
    assert sorted(path.name for path in image.parent.iterdir()) == ["boot", "boot.img", "kernel"]
    return image.read_bytes()


def partitions(disk: bytes) -> list[tuple[int, int, int]]:
    """Type, first byte and size of each."""
    assert disk[510:512] == b"\x55\xaa"
    entries = [struct.unpack("<B3xB3xII", disk[at : at + 16]) for at in range(446, 510, 16)]
    return [(kind, start * 512, size * 512) for _, kind, start, size in entries if kind]


def test_power_boots_a_partition_with_the_core_image(template: Path, kernel: Artifact) -> None:
    disk = written(template, kernel, arch.PPC64LE)
    assert disk[:440] == bytes(440)
    assert partitions(disk) == [(0x41, MIB, 8 * MIB), (0x83, 9 * MIB, 247 * MIB)]
    assert disk[MIB : MIB + 800] == b"core" * 200
    assert len(disk) == 256 * MIB


def test_a_bios_boots_the_first_sectors(template: Path, kernel: Artifact) -> None:
    disk = written(template, kernel, arch.X86_64)
    assert disk[:440] == b"\xeb" * 440
    assert partitions(disk) == [(0x83, 9 * MIB, 247 * MIB)]
    assert disk[512:1312] == b"core" * 200


@pytest.mark.slow
def test_the_file_system_has_the_default_kernel_and_belongs_to_root(template: Path, kernel: Artifact) -> None:
    disk = written(template, kernel, arch.PPC64LE)
    image = template.parent / "file system"
    image.write_bytes(disk[9 * MIB :])

    def ask(request: str) -> str:
        command = [grub.preflight.which("debugfs") or "debugfs", "-R", request, image]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert ask(f"cat vmlinux-{RELEASE}") == "\x7fELF kernel"
    assert ask(f"cat config-{RELEASE}") == "CONFIG_SMP=y\n"
    assert f"linux\t/vmlinux-{RELEASE} root=/dev/vda rw console=hvc0" in ask("cat grub/grub.cfg")
    assert "core" in ask("cat grub/powerpc-ieee1275/core.elf")
    assert "User:     0   Group:     0" in ask("stat grub/grub.cfg")
    assert f"Filesystem volume name:   {grub.LABEL}" in ask("show_super_stats -h")


def test_a_core_image_that_does_not_fit_is_refused(template: Path, kernel: Artifact) -> None:
    (template / "grub/i386-pc/core.img").write_bytes(bytes(MIB))
    with pytest.raises(ToolError, match="1048576 bytes, and 1048064 are there"):
        written(template, kernel, arch.X86_64)


def test_a_file_system_that_cannot_be_made_leaves_no_tree(
    template: Path, kernel: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.image.write_bytes(b"x" * (3 * MIB))
    monkeypatch.setattr(grub, "BOOT", grub.Partition(grub.TYPE_LINUX, 9, 2))
    image = template.parent / qemu.BOOT
    with pytest.raises(ToolError, match="mke2fs failed: ") as caught:
        grub.write(template, arch.PPC64LE, kernel, "", image)
    assert caught.value.code is ExitCode.ENVIRONMENT
    assert not image.with_suffix(".tree").exists()


def test_grub_starts_the_kernel_as_qemu_does_and_more_mounts_boot() -> None:
    line = qemu.kernel_command_line(arch.PPC64LE, grub.words("crashkernel=512M"))
    plain = qemu.kernel_command_line(arch.PPC64LE)
    assert line == f"{plain} systemd.mount-extra=LABEL={grub.LABEL}:/boot:ext4 crashkernel=512M"
    config = grub.config(arch.PPC64LE, RELEASE, line)
    assert f"\tlinux\t/vmlinux-{RELEASE} {line}\n" in config
    assert "@" not in config.partition("### BEGIN")[2]
    assert f"linux\t/vmlinuz-{RELEASE} " in grub.config(arch.X86_64, RELEASE, line)


def test_grub_cfg_has_what_deploying_looks_for() -> None:
    config = grub.config(arch.PPC64LE, RELEASE, "")
    for words in ("load_env", "save_env next_entry", 'default="${saved_entry}"', "custom.cfg"):
        assert words in config
    assert grub.LABEL in config
    assert grub.LABEL in (Path(grub.__file__).parent / "data/rootfs/boot/grub/load.cfg").read_text()


def test_update_grub_makes_the_same_entry() -> None:
    defaults = grub.defaults(qemu.kernel_command_line(arch.PPC64LE, grub.words(""))).decode().splitlines()
    assert "GRUB_DEFAULT=saved" in defaults
    words = f"rw console=hvc0 panic=10 loglevel=6 net.ifnames=0 norandmaps {grub.MOUNT}"
    assert f'GRUB_CMDLINE_LINUX="{words}"' in defaults


@pytest.mark.parametrize("wanted", arch.ARCHES.values(), ids=lambda wanted: wanted.name)
def test_the_base_disks_grub_makes_the_core_image(wanted: arch.Arch) -> None:
    platform = grub.PLATFORMS[wanted.name]
    assert platform.package in grub.packages(wanted)
    made = [hook for hook in grub.hooks(wanted) if f"/{platform.name}/{platform.core} " in hook]
    assert len(made) == 1
    assert made[0].startswith('chroot "$1" grub-mkimage')
    assert made[0].endswith(" ".join(platform.modules))
