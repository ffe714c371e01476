"""Where a configuration and a list of modules come from: files, packages, hosts."""

from __future__ import annotations

import gzip
import lzma
import subprocess
from pathlib import Path

import pytest

from hotplug_common.kernel import origin
from hotplug_common.paths import Paths
from hotplug_host.errors import ExitCode, ToolError

CONFIG = "CONFIG_PPC64=y\nCONFIG_CPU_LITTLE_ENDIAN=y\n"
LSMOD = """\
Module                  Size  Used by
ibmvscsi              131072  2
scsi_transport_srp    131072  1 ibmvscsi
nvme-core             262144  0
"""


@pytest.mark.parametrize(
    ("name", "pack"),
    [("config", bytes), ("config.gz", gzip.compress), ("config.xz", lzma.compress)],
)
def test_a_file_may_be_compressed(tmp_path: Path, paths: Paths, name: str, pack: type[bytes]) -> None:
    file = tmp_path / name
    file.write_bytes(pack(CONFIG.encode()))
    assert origin.read_config(str(file), paths) == origin.Given(CONFIG, str(file))


@pytest.mark.parametrize(
    "place", ["boot/config-6.12.0-1", "lib/modules/6.12.0-1/config", "usr/lib/modules/6/config"]
)
def test_an_unpacked_package_has_one_configuration(tmp_path: Path, paths: Paths, place: str) -> None:
    file = tmp_path / place
    file.parent.mkdir(parents=True)
    file.write_text(CONFIG)
    given = origin.read_config(str(tmp_path), paths)
    assert (given.text, given.where) == (CONFIG, f"{tmp_path} ({place})")


def test_of_several_configurations_the_operator_chooses(tmp_path: Path, paths: Paths) -> None:
    folder = tmp_path / "usr/src/linux-config-6.12"
    folder.mkdir(parents=True)
    (folder / "config.a.xz").write_bytes(lzma.compress(CONFIG.encode()))
    (folder / "config.b.xz").write_bytes(lzma.compress(b"CONFIG_B=y\n"))
    with pytest.raises(
        ToolError, match=r"several configurations: .*config\.a\.xz, .*config\.b\.xz"
    ) as caught:
        origin.read_config(str(tmp_path), paths)
    assert caught.value.code is ExitCode.USAGE
    (folder / "config.b.xz").unlink()
    (folder / "config.a.xz").unlink()
    with pytest.raises(ToolError, match="holds no configuration") as caught:
        origin.read_config(str(tmp_path), paths)
    assert caught.value.code is ExitCode.INPUT


def test_a_deb_is_unpacked_and_nothing_of_it_stays(tmp_path: Path, paths: Paths) -> None:
    root = tmp_path / "root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        "Package: x\nVersion: 1\nArchitecture: ppc64el\nMaintainer: a <a@example.org>\nDescription: x\n"
    )
    (root / "boot").mkdir()
    (root / "boot/config-6.12.0").write_text(CONFIG)
    deb = tmp_path / "linux-image.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, deb], check=True, capture_output=True)
    given = origin.read_config(str(deb), paths)
    assert (given.text, given.where) == (CONFIG, f"{deb} (boot/config-6.12.0)")
    assert list(paths.scratch.iterdir()) == []


def test_an_rpm_is_unpacked(tmp_path: Path, paths: Paths) -> None:
    spec = tmp_path / "x.spec"
    spec.write_text(
        "Name: kernel-core\nVersion: 6.12.0\nRelease: 1\nSummary: x\nLicense: GPL\n%description\nx\n"
        "%install\nmkdir -p %{buildroot}/lib/modules/6.12.0-1\n"
        f"printf '{CONFIG.encode('unicode_escape').decode()}' > %{{buildroot}}/lib/modules/6.12.0-1/config\n"
        "%files\n/lib/modules/6.12.0-1/config\n"
    )
    command = ["rpmbuild", "-bb", "--quiet", "--define", f"_topdir {tmp_path}/rpm", spec]
    subprocess.run(command, check=True, capture_output=True)
    (rpm,) = (tmp_path / "rpm/RPMS").glob("*/*.rpm")
    given = origin.read_config(str(rpm), paths)
    assert (given.text, given.where) == (CONFIG, f"{rpm} (lib/modules/6.12.0-1/config)")
    assert list(paths.scratch.iterdir()) == []


@pytest.mark.parametrize("suffix", [".deb", ".rpm", ".gz"])
def test_a_damaged_file_is_one_line(tmp_path: Path, paths: Paths, suffix: str) -> None:
    file = tmp_path / f"broken{suffix}"
    file.write_bytes(b"no package\n")
    with pytest.raises(ToolError, match=r"^cannot (unpack|read) .*broken") as caught:
        origin.read_config(str(file), paths)
    assert caught.value.code is ExitCode.INPUT


def fake_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    """Put an ssh before the real one that keeps its words and runs BODY."""
    program = tmp_path / "bin/ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\n{body}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return tmp_path / "words"


@pytest.mark.parametrize(
    ("source", "to"),
    [
        ("lpar17:", "lpar17"),
        ("root@lpar17.example.com:", "root@lpar17.example.com"),
        ("ssh://a@b:22", "ssh://a@b:22"),
    ],
)
def test_a_host_is_asked_by_ssh(
    tmp_path: Path, paths: Paths, monkeypatch: pytest.MonkeyPatch, source: str, to: str
) -> None:
    words = fake_ssh(tmp_path, monkeypatch, f"printf '{CONFIG.encode('unicode_escape').decode()}'")
    assert origin.read_config(source, paths).text == CONFIG
    assert words.read_text().splitlines()[:4] == ["-o", "BatchMode=yes", "--", to]


def test_the_words_for_a_host_work_in_its_shell(
    tmp_path: Path, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ssh(tmp_path, monkeypatch, 'shift 4; eval "$1"')
    programs = {
        "uname": "echo no-such-release",
        "gzip": "echo CONFIG_IKCONFIG=y",
        "cat": "echo ibmveth 1 0",
        "find": "echo pci:v000010DFd0000E300",
        "modprobe": 'test "$*" = "-R pci:v000010DFd0000E300" && echo lpfc',
    }
    for name, body in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    assert origin.read_config("lpar17:", paths).text == "CONFIG_IKCONFIG=y\n"
    assert origin.read_modules("lpar17:") == (["ibmveth", "lpfc"], True)


def test_a_host_that_does_not_answer_is_one_line(
    tmp_path: Path, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ssh(tmp_path, monkeypatch, "echo 'ssh: connect to host lpar17 port 22: refused' >&2; exit 255")
    with pytest.raises(ToolError, match=r"^cannot read from lpar17: ssh: connect") as caught:
        origin.read_config("lpar17:", paths)
    assert caught.value.code is ExitCode.ENVIRONMENT


@pytest.mark.parametrize("source", ["nowhere", "-oProxyCommand=x:", "ssh://-oProxyCommand=x", "a/b:"])
def test_what_is_neither_file_nor_host_is_refused(paths: Paths, source: str) -> None:
    with pytest.raises(ToolError, match="there is no file") as caught:
        origin.read_config(source, paths)
    assert caught.value.code is ExitCode.USAGE


def test_modules_are_read_from_lsmod_or_a_list(tmp_path: Path) -> None:
    file = tmp_path / "lsmod.txt"
    file.write_text(LSMOD)
    assert origin.read_modules(str(file)) == (["ibmvscsi", "nvme_core", "scsi_transport_srp"], False)
    file.write_text("Module Size Used by\n")
    with pytest.raises(ToolError, match="names no module"):
        origin.read_modules(str(file))


def test_kbuild_gets_them_as_lsmod_prints_them() -> None:
    assert origin.lsmod(["xfs"]).splitlines() == [LSMOD.splitlines()[0], "xfs 0 0"]
    assert origin.parse_modules(origin.lsmod(["a_b", "c"])) == ["a_b", "c"]
