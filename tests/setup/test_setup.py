"""Set-up on a fake Debian: whatever half of QEMU is installed, all of it ends installed, in one version."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import FAKES, ROOT

PROFILES = ("python", "lab", "tests", "validation")
OLD, NEW, NEWER = "1:7.2+dfsg-7", "1:10.0.2+ds-2~bpo12+1", "1:10.1.0+ds-5"
PPC, X86, UTILS = "qemu-system-ppc", "qemu-system-x86", "qemu-utils"
QEMU = (PPC, X86, UTILS)
NOTHING_TO_DO = "setup: all Debian packages are there\nsetup: the Python environment is up to date\n"


def listed(name: str) -> list[str]:
    lines = (ROOT / f"tools/setup/packages-{name}.txt").read_text().splitlines()
    return [name for line in lines if (name := line.partition("#")[0].strip())]


class Debian:
    """A machine whose release has the old QEMU, and its backports the new one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "debian"
        self.root = folder / "checkout"
        self.log = self.folder / "log"
        for name in ("installed", "release", "backports"):
            (self.folder / name).mkdir(parents=True)
        shutil.copytree(ROOT / "tools/setup", self.root / "tools/setup")
        for name in ("requirements.lock", "pyproject.toml"):
            shutil.copy(ROOT / name, self.root)
        for profile in PROFILES:
            self.put("release", dict.fromkeys(listed(profile), "1.0"))
        self.put("release", dict.fromkeys(QEMU, OLD))
        self.put("backports", dict.fromkeys(QEMU, NEW))
        # The Python environment is there: pip is not what is tested.
        content = (self.root / "requirements.lock").read_bytes() + (self.root / "pyproject.toml").read_bytes()
        (self.root / ".venv").mkdir()
        (self.root / ".venv/.requirements").write_text(f"{hashlib.sha256(content).hexdigest()} {self.root}\n")

    def put(self, place: str, versions: dict[str, str]) -> None:
        for package, version in versions.items():
            (self.folder / place / package).write_text(f"{version}\n")

    def install_all_but_qemu(self) -> None:
        for profile in PROFILES:
            self.put("installed", dict.fromkeys(listed(profile), "1.0"))

    def qemu(self) -> dict[str, str]:
        """Return the installed versions."""
        paths = [self.folder / "installed" / package for package in QEMU]
        return {path.name: path.read_text().strip() for path in paths if path.exists()}

    def set_up(self, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PATH": path or f"{FAKES / 'debian'}:{os.environ['PATH']}",
            "FAKE_DEBIAN": str(self.folder),
        }
        return subprocess.run(
            [self.root / "tools/setup/setup.sh", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
        )

    def calls(self) -> list[str]:
        """Return what apt-get and dpkg were asked to change since the last time."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line for line in lines if " -s " not in line and "indextargets" not in line]


@pytest.fixture
def debian(tmp_path: Path) -> Debian:
    return Debian(tmp_path)


def test_a_bare_machine_gets_everything_and_a_second_run_finds_nothing_to_do(debian: Debian) -> None:
    done = debian.set_up("lab")
    assert done.returncode == 0, done.stdout
    assert debian.qemu() == dict.fromkeys(QEMU, NEW)
    installed = {path.name for path in (debian.folder / "installed").iterdir()}
    assert installed == {*listed("python"), *listed("lab"), *QEMU}
    debian.calls()
    again = debian.set_up("lab")
    assert (again.returncode, again.stdout) == (0, NOTHING_TO_DO)
    assert debian.calls() == []


@pytest.mark.parametrize(
    "installed",
    [
        {},
        {PPC: NEW},
        {X86: NEW},
        {PPC: NEW, UTILS: NEW},
        {X86: NEW, UTILS: OLD},
        {PPC: OLD},
        {X86: OLD},
        {UTILS: OLD},
        dict.fromkeys(QEMU, OLD),
        # Of a newer release, or of backports that have gone on since.
        {PPC: NEWER},
        {X86: NEWER, UTILS: NEWER},
        {PPC: "1:9.2.0+ds-5~bpo12+1"},
    ],
    ids=lambda state: "+".join(f"{name.removeprefix('qemu-')}={at}" for name, at in state.items()) or "none",
)
def test_any_half_of_qemu_ends_as_all_of_it(debian: Debian, installed: dict[str, str]) -> None:
    debian.install_all_but_qemu()
    debian.put("installed", installed)
    done = debian.set_up("lab")
    assert done.returncode == 0, done.stdout
    assert debian.qemu() == dict.fromkeys(QEMU, NEW)
    assert debian.set_up("lab").stdout == NOTHING_TO_DO


@pytest.mark.parametrize("newer", [{}, {PPC: NEWER}])
def test_a_release_with_a_new_qemu_needs_backports_only_for_what_came_from_there(
    debian: Debian, newer: dict[str, str]
) -> None:
    debian.install_all_but_qemu()
    debian.put("release", dict.fromkeys(QEMU, NEW))
    debian.put("backports", dict.fromkeys(QEMU, NEWER))
    debian.put("installed", newer)
    assert debian.set_up("lab").returncode == 0
    assert debian.qemu() == dict.fromkeys(QEMU, NEWER if newer else NEW)


def test_a_new_qemu_that_is_there_stays(debian: Debian) -> None:
    debian.install_all_but_qemu()
    debian.put("installed", dict.fromkeys(QEMU, NEWER))
    assert debian.set_up("lab").stdout == NOTHING_TO_DO
    assert debian.qemu() == dict.fromkeys(QEMU, NEWER)
    assert debian.calls() == []


def test_unit_tests_need_no_qemu(debian: Debian) -> None:
    assert debian.set_up("python").returncode == 0
    assert debian.qemu() == {}


def test_a_dry_run_tells_and_changes_nothing(debian: Debian) -> None:
    debian.put("installed", {PPC: NEW})
    (debian.folder / "interrupted").touch()
    done = debian.set_up("--dry-run", "lab")
    assert done.returncode == 0
    for words in (
        "will first finish",
        f"archive: {' '.join(listed('python'))}",
        "will install QEMU 8.1 or newer",
    ):
        assert words in done.stdout
    assert debian.qemu() == {PPC: NEW}
    assert debian.calls() == []


@pytest.mark.parametrize("how", ["easy", "needs apt"])
def test_an_installation_that_was_interrupted_is_finished_first(debian: Debian, how: str) -> None:
    (debian.folder / "interrupted").write_text(how)
    assert debian.set_up("lab").returncode == 0
    assert debian.qemu() == dict.fromkeys(QEMU, NEW)
    calls = debian.calls()
    assert calls[0] == "dpkg --configure -a"
    assert ("--fix-broken" in calls[1]) == (how != "easy")


def test_an_archive_without_the_package_is_an_error_with_apts_own_words(debian: Debian) -> None:
    (debian.folder / "release" / listed("lab")[0]).unlink()
    done = debian.set_up("lab")
    assert done.returncode == 3
    assert f"Unable to locate package {listed('lab')[0]}" in done.stdout
    assert done.stdout.endswith("setup: error: installing packages failed; see apt's message above\n")


def test_an_argument_that_is_unknown_is_a_usage_error(debian: Debian) -> None:
    done = debian.set_up("everything")
    assert done.returncode == 2
    assert "unknown argument 'everything'" in done.stdout


#: What the script calls on any Linux system.
EVERYWHERE = (
    "bash",
    "cat",
    "cut",
    "dirname",
    "env",
    "git",
    "grep",
    "id",
    "python3",
    "rm",
    "sed",
    "sha256sum",
)


def without_apt(folder: Path, *missing: str) -> str:
    """Return a PATH as of a system that has no apt, and lacks some more."""
    folder.mkdir()
    for name in set(EVERYWHERE) - set(missing):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    return str(folder)


def test_another_system_gets_the_python_environment_only(debian: Debian, tmp_path: Path) -> None:
    path = without_apt(tmp_path / "bin")
    done = debian.set_up("python", path=path)
    assert done.returncode == 0, done.stdout
    assert done.stdout == (
        f"setup: not Debian 12 or 13: using /usr/bin/python3 and {path}/git\n"
        "setup: the Python environment is up to date\n"
    )
    (debian.root / ".venv/.requirements").unlink()
    done = debian.set_up("--dry-run", "python", path=path)
    assert done.returncode == 0
    assert "locked Python packages into .venv" in done.stdout
    assert debian.calls() == []


@pytest.mark.parametrize(
    ("profile", "missing", "words"),
    [
        (
            "lab",
            (),
            "the lab needs Debian 12 or 13, which this is not; 'tools/setup/setup.sh python' prepares",
        ),
        ("python", ("git",), "git is not installed; install git"),
    ],
)
def test_another_system_without_what_it_needs_is_told(
    debian: Debian, tmp_path: Path, profile: str, missing: tuple[str, ...], words: str
) -> None:
    done = debian.set_up(profile, path=without_apt(tmp_path / "bin", *missing))
    assert done.returncode == 3
    assert words in done.stdout
