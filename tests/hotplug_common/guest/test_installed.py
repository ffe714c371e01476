"""Disks with an installed kernel: what is on them, where, and what is undone when making one fails."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from hotplug_common import arch
from hotplug_common.debian import Package
from hotplug_common.guest import grub, installed, rootfs
from hotplug_common.paths import Paths
from hotplug_host.errors import ExitCode, ToolError
from tests.hotplug_common.guest.test_grub import partitions

MIB = 1 << 20
RELEASE = "6.12.107+deb13-powerpc64le"


def test_the_seed_is_looked_for_where_this_bus_has_it() -> None:
    unit = installed.PowerVM().files()[rootfs.SEED_UNIT].decode()
    assert "virtio" not in unit
    assert unit.count(r"by\x2did-scsi\x2d0QEMU_QEMU_HARDDISK_lab\x2dseed.device") == 2
    assert "--file=/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_lab-seed " in unit


def test_the_root_is_a_logical_volume_and_boot_a_partition() -> None:
    files = {path: content.decode() for path, content in installed.PowerVM().files().items()}
    assert "/dev/mapper/vg0-root / xfs" in files["etc/fstab"]
    assert f"LABEL={grub.LABEL} /boot ext4" in files["etc/fstab"]
    assert "console=hvc0" in files[grub.DEFAULTS]
    assert "root=/dev/mapper/vg0-root" in installed.PowerVM().command_line()
    assert "disable_radix" not in installed.PowerVM().command_line()


def test_the_firewall_is_there_and_starts() -> None:
    style = installed.PowerVM()
    assert style.links()["etc/systemd/system/sysinit.target.wants/nftables.service"].endswith(
        "/nftables.service"
    )
    assert "policy drop" in style.files()["etc/nftables.conf"].decode()
    assert "nftables" in style.packages


def test_the_kernel_is_installed_from_what_was_fetched_and_its_package_does_not_stay() -> None:
    install = installed.PowerVM().hooks(arch.PPC64LE)[-3:]
    assert install == [
        'cp "$LPAR_LAB_WORK"/kernel.deb "$1"/root/kernel.deb',
        'chroot "$1" dpkg --install /root/kernel.deb',
        'rm "$1"/root/kernel.deb',
    ]


def test_it_is_another_disk_than_the_plain_one() -> None:
    style = installed.PowerVM()
    assert rootfs.cache_key(arch.PPC64LE, "trixie", style) != rootfs.cache_key(arch.PPC64LE, "trixie")
    assert {"lvm2", "xfsprogs", "initramfs-tools", "openssh-server"} <= set(
        rootfs.packages(arch.PPC64LE, style)
    )


def test_dracut_may_make_the_initial_ram_disks() -> None:
    usual, style = installed.PowerVM(), installed.PowerVM(installed.DRACUT)
    assert style.of(arch.PPC64LE) == f"{usual.of(arch.PPC64LE)}-dracut"
    # Debian's package excludes the other; what makes kdump's is a package of its own.
    assert set(style.packages) ^ set(usual.packages) == {"dracut", "initramfs-tools-core", "initramfs-tools"}
    assert style.command_line() == f"{usual.command_line()} rd.lvm.lv=vg0/root"
    assert rootfs.cache_key(arch.PPC64LE, "trixie", style) != rootfs.cache_key(arch.PPC64LE, "trixie", usual)


def test_the_newest_release_comes_first() -> None:
    names = [f"linux-image-{release}" for release in ("6.12.99+deb13-powerpc64le", RELEASE)]
    others = [f"linux-image-{RELEASE}-64k", "linux-image-powerpc64le"]
    assert installed.newest_first([*names, *others], installed.PowerVM.kernel_name) == [names[1], names[0]]


class Archive:
    """Stands in for apt: knows both packages, and lacks the files of some."""

    lacks: tuple[str, ...] = ()
    readable = True

    def __init__(self, _root: Path, lines: list[str], architecture: str) -> None:
        assert lines
        assert architecture == "ppc64el"

    def refresh(self, _say: object) -> bool:
        return self.readable

    def names(self, _pattern: str) -> list[str]:
        return [f"linux-image-6.12.{point}+deb13-powerpc64le" for point in (107, 117)]

    def candidate(self, name: str) -> Package:
        return Package(name, "1", "0")

    def download(self, package: Package, folder: Path) -> Path:
        if package.name in self.lacks:
            raise ToolError(f"cannot download {package.name}")
        file = folder / f"{package.name}.deb"
        file.write_text(package.name)
        return file


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> type[Archive]:
    class One(Archive):
        pass

    monkeypatch.setattr(installed, "Apt", One)
    monkeypatch.setattr(installed.debian, "mirrors", lambda: {"Debian": "http://mirror.example.org"})
    return One


def fetched(tmp_path: Path, said: list[str]) -> str:
    paths = Paths(tmp_path, tmp_path, tmp_path)
    installed.PowerVM().prepare(arch.PPC64LE, tmp_path, paths, said.append)
    return (tmp_path / installed.KERNEL_DEB).read_text()


def test_a_kernel_that_the_mirror_lacks_is_passed_over(
    tmp_path: Path, archive: type[Archive], said: list[str]
) -> None:
    assert fetched(tmp_path, said) == "linux-image-6.12.117+deb13-powerpc64le"
    archive.lacks = ("linux-image-6.12.117+deb13-powerpc64le",)
    assert fetched(tmp_path, said) == f"linux-image-{RELEASE}"
    assert "cannot download linux-image-6.12.117+deb13-powerpc64le" in said


@pytest.mark.parametrize("readable", [True, False])
def test_a_mirror_without_any_kernel_is_an_error(
    readable: bool, tmp_path: Path, archive: type[Archive], said: list[str]
) -> None:
    archive.readable = readable
    archive.lacks = tuple(Archive(Path(), ["x"], "ppc64el").names(""))
    with pytest.raises(ToolError, match="a kernel of Debian trixie for ppc64el") as caught:
        fetched(tmp_path, said)
    assert caught.value.code is ExitCode.ENVIRONMENT


class Tools:
    """Stands in for what losetup and LVM print; one of them may fail."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.calls: list[list[str]] = []
        self.open: set[str] = set()

    def __call__(self, command: Iterable[str | Path]) -> str:
        words = [str(word) for word in command]
        self.calls.append(words)
        if words[0] == self.fails:
            raise ToolError(f"{words[0]} failed")
        if words[0] == "losetup" and "--detach" in words:
            self.open.remove(words[-1])
        elif words[0] == "losetup":
            device = f"/dev/loop{len(self.calls)}"
            self.open.add(device)
            return f"{device}\n"
        return (
            "  WARNING: a file descriptor is left open\n  1048576 5364514816\n" if words[0] == "pvs" else ""
        )


def test_the_logical_volume_is_found_without_a_device_mapper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Tools()
    monkeypatch.setattr(installed, "must", tools)
    image = tmp_path / "disk.img"
    with installed.logical_volume(image, installed.PHYSICAL) as device:
        assert tools.open == {device}
    start = installed.PHYSICAL.start * MIB
    loops = [words[3:5] for words in tools.calls if "--find" in words]
    assert loops == [
        [f"--offset={start}", f"--sizelimit={installed.PHYSICAL.size * MIB}"],
        [f"--offset={start + MIB}", "--sizelimit=5364514816"],
    ]
    assert tools.open == set()
    lvm = [words for words in tools.calls if words[0] in {"pvcreate", "vgcreate", "lvcreate", "pvs"}]
    assert len(lvm) == 4
    assert all('filter=["a|^/dev/loop1$|","r|.*|"]' in words[2] for words in lvm)


@pytest.mark.parametrize("fails", ["pvcreate", "vgcreate", "lvcreate", "pvs"])
def test_no_loop_device_is_left_when_a_tool_fails(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Tools(fails)
    monkeypatch.setattr(installed, "must", tools)
    with (
        pytest.raises(ToolError, match=f"{fails} failed"),
        installed.logical_volume(tmp_path / "disk.img", installed.PHYSICAL),
    ):
        pytest.fail("there is no volume")
    assert tools.open == set()


def test_a_file_system_is_unmounted_when_its_use_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Tools()
    monkeypatch.setattr(installed, "must", tools)
    with pytest.raises(KeyboardInterrupt), installed.mounted("/dev/loop1", tmp_path / "root"):
        raise KeyboardInterrupt
    assert [words[0] for words in tools.calls] == ["mount", "umount"]


def test_the_partitions_follow_each_other() -> None:
    outside = grub.power_outside(b"core", installed.BOOT, installed.PHYSICAL)
    sector = bytes(grub.TABLE) + outside[grub.TABLE]
    found = partitions(sector)
    assert [kind for kind, _, _ in found] == [0x41, 0x83, 0x8E]
    ends = [start + size for _, start, size in found]
    assert [start for _, start, _ in found] == [MIB, *ends[:-1]]
    assert f"{ends[-1] // MIB}M" == installed.PowerVM.size


@pytest.mark.parametrize(
    "names", [[], [f"vmlinux-{RELEASE}"], ["vmlinux-1", "vmlinux-2", "initrd.img-1", "initrd.img-2"]]
)
def test_one_kernel_with_its_initial_ram_disk_is_wanted(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ToolError, match="/boot of the new disk holds"):
        installed.only_release(tmp_path, "vmlinux")
    (tmp_path / "one").mkdir()
    for name in ("vmlinux", "initrd.img"):
        (tmp_path / "one" / f"{name}-{RELEASE}").touch()
    assert installed.only_release(tmp_path / "one", "vmlinux") == RELEASE


def test_only_root_makes_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootfs.preflight, "require", lambda *_: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ToolError, match="only root") as caught:
        installed.PowerVM().check()
    assert caught.value.code is ExitCode.ENVIRONMENT


def test_grub_loads_the_initial_ram_disk() -> None:
    config = grub.config(arch.PPC64LE, RELEASE, installed.PowerVM().command_line(), f"initrd.img-{RELEASE}")
    assert f"\tlinux\t/vmlinux-{RELEASE} root=/dev/mapper/vg0-root rw" in config
    assert f"\n\tinitrd\t/initrd.img-{RELEASE}\n" in config
    assert config.count("initrd") == 2, "not in the comment, where its second line would be a command"


def test_a_server_has_a_kernel_of_its_own_and_firmware_finds_grub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    style = installed.Server()
    files = {path: content.decode() for path, content in style.files().items()}
    assert r"by\x2did-ata\x2dQEMU_DVD\x2dROM_lab\x2dseed.device" in files[rootfs.SEED_UNIT]
    assert "console=ttyS0" in files[grub.DEFAULTS]
    assert style.kernel_name.fullmatch("linux-image-6.12.107+deb13-amd64")
    assert not style.kernel_name.fullmatch("linux-image-6.12.107+deb13-amd64-unsigned")
    packages = rootfs.packages(arch.X86_64, style)
    assert {"grub-efi-amd64-bin", "grub-pc-bin", "lvm2"} <= set(packages)
    assert "--format=x86_64-efi --output=/boot/grub/x86_64-efi/grub.efi" in " ".join(style.hooks(arch.X86_64))

    tools = Tools()
    monkeypatch.setattr(installed, "must", tools)
    image, boot = tmp_path / "disk.img", tmp_path / "boot"
    (boot / "grub/x86_64-efi").mkdir(parents=True)
    (boot / "grub/x86_64-efi/grub.efi").write_text("core")
    image.write_bytes(bytes(1024))
    style.make_bootable(image, boot, tmp_path)
    found = partitions(image.read_bytes()[:512])
    assert [kind for kind, _, _ in found] == [0xEF, 0x83, 0x8E]
    assert [words[0] for words in tools.calls] == ["mformat", "mmd", "mcopy"]
    assert {words[2] for words in tools.calls} == {f"{image}@@{MIB}"}
    assert tools.calls[-1][3:] == [str(boot / "grub/x86_64-efi/grub.efi"), "::/EFI/BOOT/BOOTX64.EFI"]
