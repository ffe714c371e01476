"""Are the tools there? One message names every missing one and the Debian packages that hold them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from hotplug_common.arch import Arch
from hotplug_host.errors import ExitCode, ToolError

SBIN = ("/usr/sbin", "/sbin")


@dataclass(frozen=True)
class Need:
    """A command, a header file when it ends in '.h', or a file by its path, and its Debian package."""

    name: str
    package: str


def which(name: str) -> str | None:
    """Find a command on PATH or in the system folders that a user's PATH may lack."""
    return shutil.which(name) or next((f"{d}/{name}" for d in SBIN if shutil.which(f"{d}/{name}")), None)


def find(need: Need) -> str | None:
    """Find a command, a header file or another file."""
    if need.name.endswith(".h") or need.name.startswith("/"):
        file = Path("/usr/include", need.name)  # a path from the root stays what it is
        return str(file) if file.exists() else None
    return which(need.name)


def require(needs: Iterable[Need], lookup: Callable[[Need], str | None] = find) -> None:
    """Raise ToolError (ENVIRONMENT) that names every missing tool and the packages to install."""
    missing = [need for need in needs if lookup(need) is None]
    if missing:
        names = ", ".join(need.name for need in missing)
        packages = " ".join(sorted({need.package for need in missing}))
        raise ToolError(f"not installed: {names}", f"apt-get install {packages}", ExitCode.ENVIRONMENT)


APT = (Need("apt-get", "apt"), Need("apt-cache", "apt"))
SOURCE = (Need("git", "git"), Need("tar", "tar"), Need("xz", "xz-utils"), Need("dpkg-deb", "dpkg"))
ROOTFS = (*APT, Need("mmdebstrap", "mmdebstrap"), Need("tar", "tar"))
SSH = (Need("ssh", "openssh-client"), Need("ssh-keygen", "openssh-client"))


def kernel_build(arch: Arch) -> tuple[Need, ...]:
    """Return what a kernel build for `arch` needs on this machine."""
    compiler = Need(f"{arch.cross_prefix}gcc", "gcc" if arch.native else arch.cross_package)
    strip = Need(
        f"{arch.cross_prefix}strip",
        "binutils" if arch.native else f"binutils-{arch.triple.replace('_', '-')}",
    )
    return (
        Need("make", "make"),
        Need("gcc", "gcc"),
        compiler,
        strip,
        Need("ccache", "ccache"),
        Need("bc", "bc"),
        Need("bison", "bison"),
        Need("flex", "flex"),
        Need("perl", "perl"),
        Need("gelf.h", "libelf-dev"),
    )


def file_system() -> tuple[Need, ...]:
    """Return what making a file system with files of root's in it needs on this machine."""
    mke2fs = Need("mke2fs", "e2fsprogs")
    return (mke2fs,) if os.geteuid() == 0 else (mke2fs, Need("fakeroot", "fakeroot"))


def foreign_programs(arch: Arch) -> tuple[Need, ...]:
    """Return what running programs of `arch` needs on this machine."""
    if arch.native:
        return ()
    return Need("update-binfmts", "binfmt-support"), Need(f"qemu-{arch.name}-static", "qemu-user-static")


def guest(arch: Arch) -> tuple[Need, ...]:
    """Return what running a guest of `arch` needs on this machine."""
    return (Need(arch.qemu, arch.qemu_package), Need("qemu-img", "qemu-utils"), *SSH)
