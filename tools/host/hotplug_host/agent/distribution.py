"""What differs between distributions: where GRUB has its files, and how packages are installed."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.programs import find_program

#: Where a package's kernel is, below the root.
FOLDER = "/boot/hotplug-acceleration"


@dataclass(frozen=True)
class Family:
    """A family of distributions.

    `kind` is that of the boot entries, "custom" or "bls"; `programs` are those needed, with their packages.
    """

    name: str
    formats: tuple[str, ...]
    kind: str
    directory: str
    prefix: str
    programs: Mapping[str, str]


FAMILIES = (
    Family(
        "debian",
        ("deb", "tar"),
        "custom",
        "/boot/grub",
        "grub",
        {
            "grub-reboot": "grub2-common",
            "grub-set-default": "grub2-common",
            "grub-editenv": "grub-common",
            "grub-probe": "grub-common",
            "grub-mkrelpath": "grub-common",
        },
    ),
    Family(
        "redhat",
        ("rpm", "tar"),
        "bls",
        "/boot/grub2",
        "grub2",
        {
            "grubby": "grubby",
            "grub2-reboot": "grub2-tools",
            "grub2-editenv": "grub2-tools-minimal",
            "grub2-probe": "grub2-tools",
        },
    ),
    Family(
        "suse",
        ("rpm", "tar"),
        "custom",
        "/boot/grub2",
        "grub2",
        {
            "grub2-reboot": "grub2",
            "grub2-set-default": "grub2",
            "grub2-editenv": "grub2",
            "grub2-probe": "grub2",
            "grub2-mkrelpath": "grub2",
        },
    ),
)
#: Families, by the words of ID and ID_LIKE in /etc/os-release.
WORDS = {
    "debian": "debian",
    "ubuntu": "debian",
    "rhel": "redhat",
    "centos": "redhat",
    "fedora": "redhat",
    "sles": "suse",
    "suse": "suse",
    "opensuse": "suse",
}


def family_of(os_release: Mapping[str, str]) -> Family:
    """Return the family of a distribution; ToolError for an unknown one."""
    words = f"{os_release.get('ID', '')} {os_release.get('ID_LIKE', '')}".split()
    name = next((WORDS[word] for word in words if word in WORDS), None)
    for family in FAMILIES:
        if family.name == name:
            return family
    known = ", ".join(family.name for family in FAMILIES)
    raise ToolError(f"the distribution '{' '.join(words)}' is none of {known}")


@dataclass(frozen=True)
class Manager:
    """A package manager: its commands take the package's name, or for `install` its file.

    Not Ansible's modules: zypper's is not in ansible-core, and those of apt and dnf need bindings that only
    the distribution's own Python has, which is too old for us on some hosts.
    """

    programs: Mapping[str, str]
    query: tuple[str, ...]
    install: tuple[str, ...]
    remove: tuple[str, ...]
    #: What `query` prints of one that is installed whole, and of one that is gone; empty where its exit code
    #: tells.
    whole: str = ""
    gone: str = ""


MANAGERS = {
    "deb": Manager(
        {"dpkg": "dpkg", "dpkg-query": "dpkg"},
        ("dpkg-query", "--show", "--showformat=${db:Status-Status}"),
        ("dpkg", "--install"),
        ("dpkg", "--purge"),
        whole="installed",
        # Also of a package that was merely tried.
        gone="not-installed",
    ),
    "rpm": Manager(
        {"rpm": "rpm"}, ("rpm", "--query"), ("rpm", "--install", "--oldpackage"), ("rpm", "--erase")
    ),
}
TAR = {"tar": "tar"}


@dataclass(frozen=True)
class Folders:
    """Where the files of an installed kernel are."""

    sysroot: Path
    release: str

    @property
    def kernel(self) -> Path:
        """The folder of image, configuration and initial RAM disk."""
        return self.sysroot / FOLDER.lstrip("/") / self.release

    @property
    def modules(self) -> Path:
        """The folder of modules, if the kernel has any."""
        return self.sysroot / "lib/modules" / self.release

    @property
    def config(self) -> Path:
        """The configuration of a kernel with modules, where mkinitramfs reads it."""
        return self.sysroot / "boot" / f"config-{self.release}"


@dataclass(frozen=True)
class Package:
    """A kernel's package, as artifact.json describes it."""

    format: str
    name: str
    file: str
    installed_bytes: int = 0
    programs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_artifact(cls, package: Mapping[str, Any], family: Family) -> Package:
        """Read the description; ToolError for a format that the family does not install."""
        kind = package["format"]
        if kind not in family.formats:
            raise ToolError(
                f"a package of the kind {kind} is not for {family.name}",
                f"build one with build_format={family.formats[0]}",
            )
        programs = MANAGERS[kind].programs if kind in MANAGERS else TAR
        return cls(kind, package["name"], package["file"], int(package.get("installed_bytes") or 0), programs)

    def whole(self, sysroot: Path, release: str) -> bool:
        """Return whether the package is installed."""
        return self._is_there(sysroot, release, lambda of, said: said in (of.whole or said,))

    def left(self, sysroot: Path, release: str) -> bool:
        """Return whether anything of the package is there, also where it came only in part."""
        return self._is_there(sysroot, release, lambda of, said: not of.gone or said != of.gone)

    def _is_there(self, sysroot: Path, release: str, means: Callable[[Manager, str], bool]) -> bool:
        """Return whether what the manager prints of the package means so; of an archive, if it is there."""
        manager = MANAGERS.get(self.format)
        if manager is None:
            return Folders(sysroot, release).kernel.is_dir()
        code, said, _ = run([*manager.query, self.name])
        return code == 0 and means(manager, said)

    def install(self, file: str, sysroot: Path, release: str) -> bool:
        """Install the package from FILE unless it is there; ToolError, in the manager's words, else."""
        if self.whole(sysroot, release):
            return False
        manager = MANAGERS.get(self.format)
        if manager is None:
            command = ["tar", "--extract", "--gzip", f"--directory={sysroot}", f"--file={file}"]
        else:
            command = [*manager.install, file]
        code, _, fault = run(command)
        if code != 0:
            size = f", which takes {math.ceil(self.installed_bytes / (1 << 20))} MiB in /boot,"
            raise ToolError(
                f"{self.file}{size if self.installed_bytes else ''} cannot be installed: {fault}",
                code=ExitCode.OPERATION,
            )
        return True

    def remove(self, sysroot: Path, release: str) -> bool:
        """Remove what is left of the package, also where it came only in part; ToolError when that fails."""
        if not self.left(sysroot, release):
            return False
        manager = MANAGERS.get(self.format)
        if manager is None:
            folders = Folders(sysroot, release)
            if folders.modules.is_dir():
                shutil.rmtree(str(folders.modules))
            if folders.config.exists():
                folders.config.unlink()
            # What tells that the package is there goes last.
            shutil.rmtree(str(folders.kernel))
            return True
        code, _, fault = run([*manager.remove, self.name])
        if code != 0:
            raise ToolError(f"{self.name} cannot be removed: {fault}", code=ExitCode.OPERATION)
        return True


def run(command: list[str]) -> tuple[int, str, str]:
    """Return the exit code, what a manager printed, and its fault as one line.

    Its progress is on standard output, and is no part of the fault, unless there is nothing else.
    """
    done = subprocess.run(
        [find_program(command[0]) or command[0], *command[1:]], capture_output=True, check=False
    )
    printed, errors = (text.decode("utf-8", "replace").strip() for text in (done.stdout, done.stderr))
    return done.returncode, printed, " ".join((errors or printed).split())
