import io
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from hotplug_common import arch
from hotplug_common import needs as preflight
from hotplug_common.guest import installed, rootfs, seed
from hotplug_common.needs import Need
from hotplug_common.paths import Paths
from hotplug_host.errors import ExitCode, ToolError


def test_overlay_is_reproducible_and_owned_by_root() -> None:
    files, links = rootfs.PLAIN.files(), rootfs.PLAIN.links()
    packed = rootfs.overlay_tar(files, links)
    assert packed == rootfs.overlay_tar(dict(reversed(files.items())), links)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = {member.name: member for member in tar}
    assert members["etc/systemd/system/lpar-lab-seed.service"].isfile()
    assert {(m.uid, m.gid, m.mtime) for m in members.values()} == {(0, 0, 0)}
    assert members["etc/systemd/system/apt-daily.timer"].linkname == "/dev/null"


@pytest.mark.parametrize("style", [rootfs.PLAIN, installed.PowerVM()], ids=["plain", "powervm"])
def test_every_enabled_unit_of_ours_is_shipped(style: rootfs.Style) -> None:
    ours = {target for target in style.links().values() if target.startswith("/etc/")}
    assert ours
    assert {target.lstrip("/") for target in ours} <= set(style.files())


def test_cache_key_follows_what_is_laid_over(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {rootfs.cache_key(a, release) for a in arch.ARCHES.values() for release in rootfs.RELEASES}
    assert len(before) == 4
    monkeypatch.setattr(rootfs, "overlay_files", lambda _: {"etc/motd": b"changed"})
    assert rootfs.cache_key(arch.PPC64LE, rootfs.RELEASES[0]) not in before


def test_powerpc_utils_only_where_they_exist() -> None:
    assert "powerpc-utils" in rootfs.packages(arch.PPC64LE)
    assert "powerpc-utils" not in rootfs.packages(arch.X86_64)


def test_foreign_programs_that_cannot_run_are_said_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(rootfs.preflight, "require", lambda *_: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ToolError, match="update-binfmts --enable qemu-ppc64le") as caught:
        rootfs.ensure_foreign_programs_run(arch.PPC64LE, tmp_path)
    assert caught.value.code is ExitCode.ENVIRONMENT
    (tmp_path / "qemu-ppc64le").write_text("disabled\n")
    with pytest.raises(ToolError):
        rootfs.ensure_foreign_programs_run(arch.PPC64LE, tmp_path)
    (tmp_path / "qemu-ppc64le").write_text("enabled\n")
    rootfs.ensure_foreign_programs_run(arch.PPC64LE, tmp_path)
    rootfs.ensure_foreign_programs_run(arch.X86_64, tmp_path / "native needs nothing")


def test_missing_tools_are_named_together_with_their_packages() -> None:
    needs = [Need("bison", "bison"), Need("gelf.h", "libelf-dev"), Need("sh", "dash")]
    with pytest.raises(ToolError) as caught:
        preflight.require(needs, lambda need: "/bin/sh" if need.name == "sh" else None)
    assert str(caught.value) == "not installed: bison, gelf.h; apt-get install bison libelf-dev"
    assert caught.value.code is ExitCode.ENVIRONMENT
    preflight.require([Need("sh", "dash")])


def test_a_file_may_be_needed_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "firmware.fd"
    need = Need(str(file), "ovmf")
    assert preflight.find(need) is None
    file.touch()
    assert preflight.find(need) == str(file)


def test_compiler_packages_follow_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "ppc64le")
    native = {need.name for need in preflight.kernel_build(arch.PPC64LE)}
    cross = {need.name: need.package for need in preflight.kernel_build(arch.X86_64)}
    assert "gcc" in native
    assert not any(name.startswith("powerpc64le") for name in native)
    assert cross["x86_64-linux-gnu-gcc"] == "gcc-x86-64-linux-gnu"
    assert cross["x86_64-linux-gnu-strip"] == "binutils-x86-64-linux-gnu"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "dpkg: error: x: No space left on device\nE: Sub-process failed\n",
            "the disk is full; free some space",
        ),
        ("I: running\nE: Failed to fetch x\nE: env\n", "E: Failed to fetch x; check the network"),
        ("something odd\n", "something odd"),
    ],
)
def test_a_failed_installation_says_why(log: str, words: str) -> None:
    error = rootfs._bootstrap_failure(arch.PPC64LE, "trixie", log)
    assert words in str(error)
    assert error.code is ExitCode.ENVIRONMENT
    assert not isinstance(error, rootfs.UnsettledMirrorError)


UNSETTLED = """\
I: running apt-get update...
E: Failed to fetch Packages.xz  File has unexpected size (9515196 != 9516256). Mirror sync in progress?
"""


LACKING = "E: Failed to fetch http://mirror/libc6_2.41_ppc64el.deb  404  Not Found [IP: ::1 80]\n"


class Installing:
    """Stands in for mmdebstrap; what it says is by release, and nothing of a release that installs."""

    def __init__(self, said: dict[str, str]) -> None:
        self.said = said
        self.tried: list[str] = []

    def __call__(self, arch_: arch.Arch, release: str, _: object, work: Path, __: object) -> Path:
        self.tried.append(release)
        if release in self.said:
            raise rootfs._bootstrap_failure(arch_, release, self.said[release])
        return work


def installing(monkeypatch: pytest.MonkeyPatch, **said: str) -> Installing:
    """Have no disk built for real."""
    monkeypatch.setattr(rootfs.preflight, "require", lambda *_: None)
    monkeypatch.setattr(rootfs, "ensure_foreign_programs_run", lambda *_: None)
    monkeypatch.setattr(rootfs.scratch, "need_space", lambda *_: None)
    monkeypatch.setattr(rootfs, "_pack", lambda _, finished, __: (finished / "disk.img").touch())
    installs = Installing(said)
    monkeypatch.setattr(rootfs, "_bootstrap", installs)
    return installs


@pytest.mark.parametrize(
    ("text", "reason"), [(UNSETTLED, "Mirror sync in progress"), (LACKING, "404  Not Found")]
)
def test_a_mirror_between_two_states_has_another_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    paths, said = Paths(tmp_path, tmp_path, tmp_path), list[str]()
    installs = installing(monkeypatch, trixie=text)
    disk = rootfs.build(arch.PPC64LE, paths, said.append)
    assert (disk.release, disk.image.exists()) == ("forky", True)
    assert any(reason in line for line in said)
    assert said[-1].endswith(
        f"Debian forky, as trixie could not be had; to try again, remove {disk.image.parent}"
    )
    assert rootfs.build(arch.PPC64LE, paths, said.append) == disk
    assert installs.tried == ["trixie", "forky"]


def test_the_preferred_release_is_taken_where_both_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths(tmp_path, tmp_path, tmp_path)
    installs = installing(monkeypatch, trixie=UNSETTLED)
    rootfs.build(arch.PPC64LE, paths, print)
    installs.said.clear()
    monkeypatch.setattr(rootfs, "find", lambda *_: None)
    assert rootfs.build(arch.PPC64LE, paths, print).release == "trixie"
    monkeypatch.undo()
    found = rootfs.find(arch.PPC64LE, paths)
    assert found
    assert found.release == "trixie"


@pytest.mark.parametrize(
    ("said", "tried"),
    [
        ({"trixie": "E: Failed to fetch x\n"}, ["trixie"]),
        ({"trixie": UNSETTLED, "forky": UNSETTLED}, ["trixie", "forky"]),
    ],
)
def test_what_no_other_release_mends_is_an_error(
    said: dict[str, str], tried: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installs = installing(monkeypatch, **said)
    with pytest.raises(ToolError, match="E: Failed to fetch") as caught:
        rootfs.build(arch.PPC64LE, Paths(tmp_path, tmp_path, tmp_path), print)
    assert caught.value.code is ExitCode.ENVIRONMENT
    assert installs.tried == tried
    assert rootfs.find(arch.PPC64LE, Paths(tmp_path, tmp_path, tmp_path)) is None


def test_only_a_quick_guest_does_without_the_units_of_any_host() -> None:
    quick, full = rootfs.PLAIN, installed.PowerVM()
    assert {f"etc/systemd/system/{unit}" for unit in rootfs.MASKED_FOR_SPEED} <= set(quick.links())
    for_speed = set(rootfs.overlay_files(rootfs.OVERLAY_QUICK))
    assert for_speed <= set(quick.files())
    assert not {f"etc/systemd/system/{unit}" for unit in rootfs.MASKED_FOR_SPEED} & set(full.links())
    assert "dev-disk" in full.files()[rootfs.SEED_UNIT].decode()
    assert for_speed & set(full.files()) == {rootfs.SEED_UNIT}
    assert {link.rpartition("/")[2] for link, target in full.links().items() if target != "/dev/null"} >= {
        "systemd-networkd.service"
    }


@pytest.mark.parametrize("serial", ["lab-seed", "", None])
def test_a_quick_guest_takes_its_identity_from_the_disk_with_the_seed_s_serial_number(
    serial: str | None, tmp_path: Path
) -> None:
    unit = rootfs.PLAIN.files()[rootfs.SEED_UNIT].decode()
    (line,) = re.findall(r"^ExecStart=/bin/sh -c '(.*tar.*)'$", unit, re.MULTILINE)
    disks = {"loop0": None, "vda": "lab-root", "vdb": serial}
    for disk, number in disks.items():
        (tmp_path / "block" / disk).mkdir(parents=True)
        if number is not None:
            (tmp_path / "block" / disk / "serial").write_text(number)
    (tmp_path / "vdb").write_bytes(seed.pack([seed.Member("etc/hostname", b"guest", 0o644)]))
    script = (
        line.replace("$$", "$").replace("/sys/block", f"{tmp_path}/block").replace("/dev/", f"{tmp_path}/")
    )
    script = script.replace("--directory=/;", f"--directory={tmp_path};")
    done = subprocess.run(["/bin/sh", "-c", script], check=False, capture_output=True)
    assert (done.returncode == 0, (tmp_path / "etc/hostname").exists()) == (serial == "lab-seed",) * 2
