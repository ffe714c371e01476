"""What a host is made of, and whether a kernel's configuration has drivers for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotplug_common.kernel import drivers as describing
from hotplug_host.preflight.drivers import SYMBOLS, Kernel, findings, read_config
from hotplug_host.preflight.hardware import Hardware, read_hardware
from hotplug_host.sysfs import Sysfs
from hotplug_timer import cli
from tests.fakes.devices import Tree

CONFIGS = Path(__file__).parents[3] / "kernel-patches/configs"
#: What distributions of 6.12 set of the symbols that count; each file names its source.
DISTRIBUTIONS = Path(__file__).parents[2] / "samples/configs"


def rhel(tree: Tree) -> None:
    for number in (0, 1):
        host = tree.driven(f"vio/3000000{number}", "ibmvfc", "vio:TfcpSIBM,vfc-client").removeprefix(
            "sys/devices/"
        )
        name = f"sd{'ab'[number]}"
        (tree.root / "dev").mkdir(exist_ok=True)
        tree.disk(name, tree.driven(f"{host}/host0/target0:0:0/0:0:0:{number}", "sd"), f"{name}1")
    tree.dm("dm-0", "mpath-36005", "mpatha", "sda", "sdb")
    tree.dm("dm-1", "part1-mpath-36005", "mpatha1", "dm-0")
    tree.dm("dm-2", "LVM-abc", "rhel-root", "dm-1")
    tree.put("proc/mounts", "/dev/mapper/rhel-root / xfs rw 0 0\n")
    tree.net("eth0", tree.driven("vio/30000010", "ibmvnic"))
    tree.net("bond0", "", "eth0", mark="bonding")
    tree.net("bond0.7", "", "bond0", uevent="DEVTYPE=vlan\n")
    tree.put("proc/modules", "nf_tables 1 0 - Live 0\nnft_ct 1 0 - Live 0\n")
    tree.put("sys/fs/selinux/enforce", "1")
    tree.put("run/auditd.pid", "7")
    tree.put("sys/kernel/kexec_crash_loaded", "1")


def sles(tree: Tree) -> None:
    tree.disk("sda", tree.driven("vio/30000002/host0/target0:0:0/0:0:0:0", "sd"), "sda2")
    tree.driven("vio/30000002", "ibmvscsi")
    tree.put("proc/mounts", "/dev/sda2 / btrfs rw 0 0\n")
    tree.net("eth0", tree.driven("vio/30000003", "ibmveth"))
    tree.put("sys/module/apparmor/parameters/enabled", "Y")


def debian(tree: Tree) -> None:
    tree.driven("pci0000:00/0000:00:01.0", "virtio-pci")
    tree.disk("vda", tree.driven("pci0000:00/0000:00:01.0/virtio0", "virtio_blk"), "vda1")
    tree.put("proc/mounts", "/dev/vda1 / ext4 rw 0 0\n")
    tree.net("eth0", tree.driven("pci0000:00/0000:00:02.0/virtio1", "virtio_net"))


def x86(tree: Tree) -> None:
    tree.disk("nvme0n1", tree.driven("pci0000:00/0000:00:1d.0", "nvme"), "nvme0n1p1")
    tree.put("proc/mounts", "/dev/nvme0n1p1 / xfs rw 0 0\n")
    tree.net("eno1", tree.driven("pci0000:00/0000:00:1f.6", "e1000e", "pci:v00008086"))


def look(tmp_path: Path, make: object) -> Hardware:
    make(Tree(tmp_path))  # type: ignore[operator]
    return read_hardware(Sysfs(tmp_path))


def lab(*names: str) -> Kernel:
    return read_config("".join((CONFIGS / f"{name}.config").read_text() for name in names), "6.12-lab")


def stops(
    hardware: Hardware, kernel: Kernel, *, initrd: bool = False, allowed: tuple[str, ...] = ()
) -> list[str]:
    return [found.text for found in findings(hardware, kernel, initrd, allowed) if found.stops]


DISTRO = "".join(f"CONFIG_{name}=y\n" for name in SYMBOLS)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            rhel,
            [
                "root is on XFS on LVM on multipath on sda (ibmvfc), sdb (ibmvfc): the kernel 6.12-lab lacks"
                " CONFIG_XFS_FS, CONFIG_BLK_DEV_DM, CONFIG_DM_MULTIPATH, CONFIG_BLK_DEV_SD,"
                " CONFIG_SCSI_IBMVFC",
                "bond0 is up: the kernel 6.12-lab lacks CONFIG_BONDING",
                "bond0.7 is up: the kernel 6.12-lab lacks CONFIG_VLAN_8021Q",
                "eth0 (ibmvnic) is up: the kernel 6.12-lab lacks CONFIG_IBMVNIC",
                "the host has a firewall: the kernel 6.12-lab lacks CONFIG_NF_TABLES, CONFIG_NFT_CT",
                "the host uses selinux: the kernel 6.12-lab lacks CONFIG_SECURITY_SELINUX",
                "the host uses audit: the kernel 6.12-lab lacks CONFIG_AUDIT",
            ],
        ),
        (
            sles,
            [
                "root is on btrfs on sda (ibmvscsi): the kernel 6.12-lab lacks CONFIG_BTRFS_FS,"
                " CONFIG_BLK_DEV_SD, CONFIG_SCSI_IBMVSCSI",
                "eth0 (ibmveth) is up: the kernel 6.12-lab lacks CONFIG_IBMVETH",
                "the host uses apparmor: the kernel 6.12-lab lacks CONFIG_SECURITY_APPARMOR",
            ],
        ),
        (
            x86,
            [
                "root is on XFS on nvme0n1 (nvme): the kernel 6.12-lab lacks CONFIG_XFS_FS,"
                " CONFIG_BLK_DEV_NVME",
                "eno1 (e1000e) is up: the kernel 6.12-lab lacks CONFIG_E1000E",
            ],
        ),
        (debian, []),
    ],
)
def test_a_kernel_of_the_lab_is_for_its_guests_only(
    tmp_path: Path, make: object, expected: list[str]
) -> None:
    hardware = look(tmp_path, make)
    assert stops(hardware, lab("base", "pseries")) == expected
    assert list(findings(hardware, read_config(DISTRO, "6.12-distro"), False)) == []


def test_modules_count_where_they_come_with_the_kernel_and_root_has_an_initrd(tmp_path: Path) -> None:
    hardware = look(tmp_path, x86)
    text = DISTRO.replace("XFS_FS=y", "XFS_FS=m")
    assert "comes without modules" in stops(hardware, read_config(text, "k"))[0]
    kernel = read_config(text, "k", aliases="alias pci:v* e1000e\n")
    assert "no initial RAM disk is given" in stops(hardware, kernel)[0]
    assert stops(hardware, kernel, initrd=True) == []


@pytest.mark.parametrize(("name", "make"), [("rhel", rhel), ("sles", sles)])
def test_a_hosts_own_configuration_has_all_that_it_needs(tmp_path: Path, name: str, make: object) -> None:
    text = (DISTRIBUTIONS / f"{name}.config").read_text()
    hardware = look(tmp_path, make)
    kernel = read_config(text, f"6.12-{name}", "ppc64le", "")
    assert list(findings(hardware, kernel, initrd=True)) == []
    (one,) = findings(hardware, kernel, initrd=False)
    assert one.stops
    assert "as modules, and no initial RAM disk is given" in one.text
    for needed in ("SCSI_IBMV", "BLK_DEV_SD", "XFS_FS" if name == "rhel" else "BTRFS_FS"):
        less = "\n".join(line for line in text.splitlines() if f"CONFIG_{needed}" not in line)
        without = list(findings(hardware, read_config(less, "6.12-less", "ppc64le", ""), initrd=True))
        assert any(found.stops and needed in found.text for found in without)


def test_protection_may_be_missing_where_that_is_allowed(tmp_path: Path) -> None:
    hardware = look(tmp_path, sles)
    assert not any("apparmor" in text for text in stops(hardware, lab("base"), allowed=("apparmor",)))
    assert any("apparmor" in found.text for found in findings(hardware, lab("base"), False, ["apparmor"]))


def test_an_unknown_driver_is_a_warning_unless_a_module_has_it(tmp_path: Path) -> None:
    def make(tree: Tree) -> None:
        tree.net("eth0", tree.driven("pci0000:00/0000:00:03.0", "new-nic", "pci:v1"))

    hardware = look(tmp_path, make)
    (found,) = findings(hardware, read_config(DISTRO, "k"), False)
    assert not found.stops
    assert "eth0 has driver new-nic (pci:v1)" in found.text
    assert list(findings(hardware, read_config(DISTRO, "k", aliases="alias pci:v1* new_nic\n"), False)) == []


def test_a_kernel_without_a_configuration_is_not_checked_and_that_is_told(tmp_path: Path) -> None:
    (found,) = findings(look(tmp_path, sles), Kernel("k"), False)
    assert not found.stops
    assert "not known" in found.text


def test_a_kernel_travels_by_its_artefact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the controller prints of it, the host's preflight takes."""
    sles(Tree(tmp_path / "host"))
    artifact = tmp_path / "artifact.json"
    artifact.write_text(json.dumps({"release": "6.12-x", "arch": "", "config": "config"}))
    (tmp_path / "config").write_text("CONFIG_SMP=y\nCONFIG_BTRFS_FS=y\n")
    assert describing.main([str(artifact)]) == 0
    line = capsys.readouterr().out.strip()
    cli.main(["preflight", "--json", "--for=deploy", f"--sysroot={tmp_path / 'host'}", f"--kernel={line}"])
    texts = [reason["text"] for reason in json.loads(capsys.readouterr().out)["reasons"]]
    root = (
        "root is on btrfs on sda (ibmvscsi): the kernel 6.12-x lacks CONFIG_BLK_DEV_SD, CONFIG_SCSI_IBMVSCSI"
    )
    assert root in texts


def test_bad_input_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert describing.main([str(tmp_path / "none.json")]) == 4
    assert cli.main(["preflight", f"--config={tmp_path / 'none'}"]) == 4
    assert "cannot read" in capsys.readouterr().err
