"""The series on a vendor's source: clean, with fuzz, or not, hunk by hunk."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from hotplug_common.kernel.series import Patch
from hotplug_common.paths import Paths
from hotplug_host.errors import ExitCode
from lpar_lab import cli, vendortree
from lpar_lab.vendortree import Fit
from tests import ROOT
from tests.hotplug_common.kernel.test_origin import fake_ssh
from tests.lpar_lab.test_states import CORE, HEADER
from tests.samples.kernellines import write_branch

MAKEFILE = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 0\nEXTRAVERSION =\n"
LINES = [f"line {number}\n" for number in range(1, 41)]


@pytest.fixture(autouse=True)
def own_folders(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command works in folders of the test, and needs no gigabytes free there."""
    monkeypatch.setattr(cli.Paths, "from_environment", lambda: paths)
    monkeypatch.setattr(vendortree.scratch, "need_space", lambda *_: None)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "linux-6.12.0-55.el10"
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "a.c").write_text("".join(LINES))
    (folder / "kernel").mkdir()
    (folder / "kernel/cpu.c").write_text(CORE)
    (folder / "include/linux").mkdir(parents=True)
    (folder / "include/linux/cpuhotplug.h").write_text(HEADER)
    return folder


def diff(name: str, *changed: int, context: tuple[int, ...] = (), new: str = "new") -> str:
    """A patch that changes these lines of a file; the vendor's file differs at CONTEXT."""
    text = f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n"
    for line in changed:
        first = line - 3
        text += f"@@ -{first},7 +{first},7 @@\n"
        for number in range(first, line + 4):
            shown = f"other {number}" if number in context else f"line {number}"
            text += f"-{shown}\n+{new} {number}\n" if number == line else f" {shown}\n"
    return text


def ship(paths: Paths, *texts: str) -> list[Patch]:
    folder = paths.patches / "hotplug/6.12"
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"000{number}.patch" for number in range(1, len(texts) + 1)]
    (folder / "series").write_text("".join(f"{name}\n" for name in names))
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_text(f"From 1 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n---\n{text}")
    return [Patch(f"hotplug/{name}", folder / name, (folder / name).read_bytes()) for name in names]


def applied(paths: Paths, tree: Path, tmp_path: Path, *texts: str) -> list[vendortree.Applied]:
    work = tmp_path / "work"
    work.mkdir()
    return vendortree.apply(ship(paths, *texts), tree, work)


def test_patches_are_judged_by_their_worst_hunk(paths: Paths, tree: Path, tmp_path: Path) -> None:
    found = applied(
        paths,
        tree,
        tmp_path,
        diff("a.c", 10, 20),
        diff("a.c", 30, context=(27, 33)),
        diff("a.c", 15, 36, context=(36,)),
    )
    assert [one.fit for one in found] == [Fit.CLEAN, Fit.FUZZ, Fit.FAILS]
    assert found[1].details == ["a.c:27 hunk 1 fuzz 1"]
    assert found[2].details == ["a.c:33 hunk 2 failed"]
    assert (tree / "a.c").read_text() == "".join(LINES)
    text = (tmp_path / "work/a.c").read_text()
    assert [f"new {line}\n" in text for line in (10, 20, 30, 15, 36)] == [True, True, True, True, False]


def test_what_may_follow_from_an_earlier_failure_is_said(paths: Paths, tree: Path, tmp_path: Path) -> None:
    after = diff("a.c", 30, new="newer").replace("-line 30", "-new 30")
    found = applied(paths, tree, tmp_path, diff("a.c", 30, context=(30,)), after, diff("a.c", 5))
    assert [one.fit for one in found] == [Fit.FAILS, Fit.FAILS, Fit.CLEAN]
    assert found[1].details == ["a.c:27 hunk 1 failed (after hotplug/0001.patch)"]


def test_files_that_the_source_lacks_are_named_and_new_ones_are_made(
    paths: Paths, tree: Path, tmp_path: Path
) -> None:
    new = "diff --git a/n.c b/n.c\nnew file mode 100644\n--- /dev/null\n+++ b/n.c\n@@ -0,0 +1 @@\n+new\n"
    later = "diff --git a/n.c b/n.c\n--- a/n.c\n+++ b/n.c\n@@ -1 +1 @@\n-new\n+newer\n"
    found = applied(paths, tree, tmp_path, new, later, diff("gone.c", 10))
    assert [one.fit for one in found] == [Fit.CLEAN, Fit.CLEAN, Fit.FAILS]
    assert found[2].details == ["gone.c: no such file"]
    assert (tmp_path / "work/n.c").read_text() == "newer\n"


def test_the_command_prints_a_table_and_fails_where_a_patch_does(
    paths: Paths, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ship(paths, diff("a.c", 10))
    assert cli.main(["check-apply", str(tree)]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "1 patches of line 6.12 on Linux 6.12.0: 1 clean, 0 fuzz, 0 fails" in text
    assert "1 of 2 hotplug states with a teardown of the architecture are not marked" in text
    assert "kernel/cpu.c:16" in text
    ship(paths, diff("a.c", 10, context=(10,)))
    assert cli.main(["check-apply", str(tree), "--format", "json"]) == ExitCode.INPUT
    record = json.loads(capsys.readouterr().out)
    assert record["counts"] == {"clean": 0, "fuzz": 0, "fails": 1}
    assert record["patches"][0]["hunks"][0] == {
        **{"file": "a.c", "number": 1, "line": 7, "fuzz": 0, "failed": True, "after": ""}
    }
    assert record["unmarked_states"][0]["name"] == "idle:online"
    assert list(paths.scratch.iterdir()) == []


def test_a_configuration_says_which_states_count(
    paths: Paths, tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ship(paths, diff("a.c", 10))
    (tree / "Kbuild").write_text("obj-$(CONFIG_SMP) += kernel/\n")
    (tree / "kernel/Makefile").write_text("obj-y += cpu.o\n")
    config = tmp_path / "config"
    for smp, said in (("y", "1 of 2 hotplug states"), ("n", "0 of 0 hotplug states")):
        config.write_text(f"CONFIG_PPC64=y\nCONFIG_CPU_LITTLE_ENDIAN=y\nCONFIG_SMP={smp}\n")
        assert cli.main(["check-apply", str(tree), "--config-from", str(config)]) == ExitCode.OK
        assert f"{said} with a teardown that the configuration builds" in capsys.readouterr().out


def test_a_source_gets_the_patches_of_its_branch(
    paths: Paths, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ship(paths, diff("a.c", 10, context=(8, 9, 11)), diff("a.c", 20))
    assert cli.main(["check-apply", str(tree), "--format", "json"]) == ExitCode.INPUT
    usual = json.loads(capsys.readouterr().out)
    write_branch(paths.patches, "6.12.0", "6.12")
    own = paths.patches / "hotplug/6.12.0"
    own.mkdir()
    (own / "series").write_text("0001.patch\n0002.patch\n")
    (own / "0001.patch").write_text(f"Subject: [PATCH] x\n\n---\n{diff('a.c', 10)}")
    assert cli.main(["check-apply", str(tree), "--format", "json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert [(one["line"], one["counts"]["clean"]) for one in (usual, found)] == [("6.12", 1), ("6.12.0", 2)]
    assert cli.main(["build-kernel", "--line", "6.12.0", "--variant", "patched"]) == ExitCode.USAGE
    assert "no suite of Debian has the source of 6.12.0; pack one, and set LPAR_LAB_SOURCE_URL=" in (
        capsys.readouterr().err
    )


def write_srpm(folder: Path, tree: Path) -> None:
    """Write what a source rpm of a kernel has, unpacked."""
    folder.mkdir()
    name = folder / f"{tree.name}.tar.xz"
    subprocess.run(["tar", "-C", tree.parent, "-cJf", name, tree.name], check=True)


def write_dsc(folder: Path, tree: Path, version: str) -> None:
    """Write a source package of Debian, which a tree becomes for it."""
    debian = tree / "debian"
    (debian / "source").mkdir(parents=True)
    (debian / "source/format").write_text("3.0 (native)\n")
    (debian / "control").write_text(
        "Source: linux\nMaintainer: a <a@example.org>\n\nPackage: x\nArchitecture: any\n"
    )
    (debian / "changelog").write_text(
        f"linux ({version}) unstable; urgency=low\n\n  * x\n\n"
        " -- a <a@example.org>  Thu, 01 Jan 2026 00:00:00 +0000\n"
    )
    build = ["dpkg-source", "-Zgzip", "--build", tree]
    subprocess.run(build, check=True, cwd=folder, capture_output=True)


def test_a_source_rpm_and_a_dsc_are_unpacked(
    paths: Paths, tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ship(paths, diff("a.c", 10))
    srpm = tmp_path / "srpm"
    write_srpm(srpm, tree)
    assert cli.main(["check-apply", str(srpm)]) == ExitCode.OK
    (srpm / "series.conf").write_text("patches.suse/x\n")
    assert cli.main(["check-apply", str(srpm)]) == ExitCode.USAGE
    assert "without its vendor's patches" in capsys.readouterr().err
    write_dsc(tmp_path, tree, "6.12.0")
    assert cli.main(["check-apply", str(tmp_path / "linux_6.12.0.dsc")]) == ExitCode.OK
    assert list(paths.scratch.iterdir()) == []


def test_the_commands_of_the_page_run_as_they_are(
    paths: Paths,
    tree: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On small sources of the names there; the host whose configuration counts is a stand-in for ssh."""
    ship(paths, diff("a.c", 10))
    (tree / "Kbuild").write_text("obj-$(CONFIG_SMP) += kernel/\n")
    (tree / "kernel/Makefile").write_text("obj-y += cpu.o\n")
    page = tmp_path / "page"
    page.mkdir()
    monkeypatch.chdir(page)
    for name in ("linux-6.12", "linux-6.12.0-55.24.1.el10_0"):
        shutil.copytree(tree, page / name)
    write_srpm(page / "kernel-6.12.0-55.24.1.el10_0.src", tree)
    write_dsc(page, tree, "6.12.118")
    (page / "linux_6.12.118.dsc").rename(page / "linux_6.12.118-1.dsc")
    config = "CONFIG_PPC64=y CONFIG_CPU_LITTLE_ENDIAN=y CONFIG_SMP=y"
    asked = fake_ssh(tmp_path, monkeypatch, f"printf '%s\\n' {config}")
    text = (ROOT / "docs/guides/operators/host-kernel.md").read_text()
    commands = re.findall(r"^lpar-lab (check-apply .*)$", text, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        assert cli.main(shlex.split(command, comments=True)) == ExitCode.OK, command
    tables, _, record = capsys.readouterr().out.partition("{")
    assert tables.count("1 patches of line 6.12 on Linux 6.12.0: 1 clean") == 3
    assert json.loads("{" + record)["unmarked_states"][0]["name"] == "idle:online"
    assert "lpar17.example.com" in asked.read_text()


@pytest.mark.parametrize(
    ("makefile", "message"),
    [(None, "is no kernel source"), (MAKEFILE.replace("12", "99"), "there is no line 6.99")],
)
def test_what_is_no_source_of_a_line_is_refused(
    paths: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str], makefile: str | None, message: str
) -> None:
    if makefile:
        (tmp_path / "Makefile").write_text(makefile)
    assert cli.main(["check-apply", str(tmp_path)]) == ExitCode.USAGE
    assert message in capsys.readouterr().err
