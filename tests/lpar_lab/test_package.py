"""A built kernel as a folder that travels, with a package of each kind in it."""

import hashlib
import json
import re
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotplug_common.kernel import artifact
from hotplug_common.kernel.artifact import Artifact, SourceRef
from hotplug_common.needs import Need
from hotplug_host.errors import ExitCode, ToolError
from lpar_lab import cli, package

RELEASE = "6.12.9-Patched-0123abcd"
FOLDER = f"boot/hotplug-acceleration/{RELEASE}"
NAME = "linux-hotplug-acceleration-6.12.9-patched-0123abcd"


@pytest.fixture
def kernel(tmp_path: Path) -> Artifact:
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "vmlinux").write_bytes(b"\x7fELF kernel")
    (folder / "config").write_text("CONFIG_SMP=y\n")
    built = Artifact(
        arch="ppc64le",
        line="6.12",
        variant="patched",
        release=RELEASE,
        image=folder / "vmlinux",
        sha256=hashlib.sha256(b"\x7fELF kernel").hexdigest(),
        config=folder / "config",
        source=SourceRef("linux-source-6.12", "6.12.9-1", "ab" * 32),
        patches=["0001.patch"],
        fragments=["base"],
        built="2026-11-20T08:00:00+00:00",
    )
    built.file.write_text(built.to_json())
    return built


def packed(kernel: Artifact, kind: str, output: Path) -> tuple[Path, dict[str, Any]]:
    file = package.pack(kernel, kind, output)
    said: dict[str, Any] = json.loads(file.read_text())["package"]
    made = output / said["file"]
    assert hashlib.sha256(made.read_bytes()).hexdigest() == said["sha256"]
    assert (said["format"], said["name"]) == (kind, NAME)
    assert len(b"\x7fELF kernel" + b"CONFIG_SMP=y\n") < int(said["installed_bytes"]) < 2000
    return made, said


def files_of(archive: Path) -> dict[str, tuple[float, str]]:
    """The files in a tarball: when they are of, and what they hold; all must be root's."""
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            assert (member.uid, member.gid) == (0, 0)
            if (file := tar.extractfile(member)) is not None:
                text = file.read().decode(errors="replace")
                found[member.name.removeprefix("./")] = (member.mtime, text)
    return found


def test_the_folder_checks_itself_and_may_lie_anywhere(kernel: Artifact, tmp_path: Path) -> None:
    made, _ = packed(kernel, "tar", tmp_path / "out")
    moved = (tmp_path / "out").rename(tmp_path / "elsewhere")
    assert sorted(path.name for path in moved.iterdir()) == sorted(
        ["SHA256SUMS", "artifact.json", "config", made.name, "vmlinux"]
    )
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=moved, check=True)
    loaded = artifact.load(moved)
    assert loaded == replace(kernel, image=moved / "vmlinux", config=moved / "config")


def test_a_tarball_has_nothing_but_our_folder(kernel: Artifact, tmp_path: Path) -> None:
    made, said = packed(kernel, "tar", tmp_path / "out")
    inside = files_of(made)
    assert set(inside) == {f"{FOLDER}/{name}" for name in ("artifact.json", "config", "vmlinux")}
    assert json.loads(inside[f"{FOLDER}/artifact.json"][1])["release"] == RELEASE
    assert said["arch"] == "ppc64le"
    again, _ = packed(kernel, "tar", tmp_path / "again")
    assert files_of(again) == inside


def test_a_deb_is_one_that_dpkg_reads_and_runs_nothing(kernel: Artifact, tmp_path: Path) -> None:
    made, said = packed(kernel, "deb", tmp_path / "out")
    fields = subprocess.run(
        ["dpkg-deb", "--field", made], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert f"Package: {NAME}" in fields
    assert "Version: 6.12.9-20261120080000" in fields
    assert "Architecture: ppc64el" in fields
    assert said["arch"] == "ppc64el"
    control = tmp_path / "control"
    subprocess.run(["dpkg-deb", "--control", made, control], check=True)
    assert [path.name for path in control.iterdir()] == ["control"]
    unpacked = tmp_path / "data.tar"
    unpacked.write_bytes(
        subprocess.run(["dpkg-deb", "--fsys-tarfile", made], check=True, capture_output=True).stdout
    )
    assert f"{FOLDER}/vmlinux" in files_of(unpacked)


def test_an_rpm_is_one_that_rpm_reads_and_runs_nothing(kernel: Artifact, tmp_path: Path) -> None:
    made, said = packed(kernel, "rpm", tmp_path / "out")

    def query(*arguments: str) -> list[str]:
        command = ["rpm", "--query", "--package", *arguments, made]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()

    assert query("--queryformat=%{name} %{version} %{release} %{arch}") == [
        f"{NAME} 6.12.9 20261120080000 ppc64le"
    ]
    assert set(query("--list")) == {
        "/boot/hotplug-acceleration",
        *(f"/{FOLDER}{name}" for name in ("", "/artifact.json", "/config", "/vmlinux")),
    }
    assert query("--scripts") == query("--triggers") == []
    assert [need for need in query("--requires") if not need.startswith("rpmlib(")] == []
    assert said["arch"] == "ppc64le"


def test_what_is_refused(kernel: Artifact, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(ToolError, match="exists already") as caught:
        package.pack(kernel, "tar", tmp_path / "there")
    assert caught.value.code == ExitCode.USAGE
    kernel.image.write_bytes(b"another")
    with pytest.raises(ToolError, match="has not the digest") as caught:
        package.pack(kernel, "tar", tmp_path / "out")
    assert caught.value.code == ExitCode.INPUT
    assert not (tmp_path / "out").exists()


def test_a_missing_tool_is_named_with_its_package(
    kernel: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = package.Format((Need("rpmbuild-that-is-not-there", "rpm"),), package.FORMATS["rpm"].make)
    monkeypatch.setitem(package.FORMATS, "rpm", gone)
    with pytest.raises(ToolError, match="not installed: rpmbuild-that-is-not-there") as caught:
        package.pack(kernel, "rpm", tmp_path / "out")
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_a_tool_that_fails_leaves_nothing(
    kernel: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> artifact.Package:
        package._run(["false"])
        raise AssertionError

    monkeypatch.setitem(package.FORMATS, "deb", package.Format((), fails))
    with pytest.raises(ToolError, match="false failed: no output"):
        package.pack(kernel, "deb", tmp_path / "out/deep")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_command_prints_where_it_is(
    kernel: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert cli.main(["package", str(kernel.file), "--output-dir", str(output)]) == ExitCode.OK
    assert capsys.readouterr().out == f"{output / 'artifact.json'}\n"


@pytest.mark.parametrize("kind", ["tar", "deb", "rpm"])
def test_modules_travel_in_the_package(kernel: Artifact, tmp_path: Path, kind: str) -> None:
    folder = kernel.file.parent
    (folder / "modules.alias").write_text("alias fs-xfs xfs\n")
    (folder / "xfs.ko").write_bytes(b"xfs")
    place = f"lib/modules/{RELEASE}/kernel/xfs.ko"
    with tarfile.open(folder / "modules.tar", "w") as archive:
        archive.add(folder / "xfs.ko", place)
    output = tmp_path / "out"
    described = json.loads(package.pack(replace(kernel, modules="modules.tar"), kind, output).read_text())
    assert (described["modules"], described["packages"]) == ("", [])
    assert (output / "modules.alias").read_text() == "alias fs-xfs xfs\n"
    made = output / described["package"]["file"]
    listing: dict[str, list[str | Path]] = {
        "tar": ["tar", "-tf", made],
        "deb": ["dpkg-deb", "-c", made],
        "rpm": ["rpm", "-qlp", made],
    }
    text = subprocess.run(listing[kind], check=True, capture_output=True, text=True).stdout
    assert place in text
    assert re.search(rf"(^|[ ./])boot/config-{RELEASE}$", text, re.MULTILINE)
    if kind == "tar":
        assert {line.split("/")[2] for line in text.splitlines() if line.startswith("lib")} == {RELEASE}
