"""What differs between the two guest architectures, as data."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from hotplug_host.errors import ExitCode, ToolError


@dataclass(frozen=True)
class Arch:
    """One guest architecture: its names in Debian, kbuild, GNU tools, QEMU and the inventory."""

    name: str
    debian: str
    kbuild: str
    make_target: str
    image: str
    """Image path inside the object directory."""
    artifact_image: str
    """Image name inside an artefact directory."""
    triple: str
    cross_package: str
    fragment: str
    """The architecture's own config fragment in kernel-patches/configs."""
    qemu: str
    qemu_package: str
    console: str
    binfmt: str
    inventory_group: str

    @property
    def native(self) -> bool:
        """Whether this machine runs the architecture itself."""
        return platform.machine() == self.name

    @property
    def cross_prefix(self) -> str:
        """Prefix of the compiler and binutils, empty for a native build."""
        return "" if self.native else f"{self.triple}-"


PPC64LE = Arch(
    name="ppc64le",
    debian="ppc64el",
    kbuild="powerpc",
    make_target="vmlinux",
    image="vmlinux",
    artifact_image="vmlinux",
    triple="powerpc64le-linux-gnu",
    cross_package="gcc-powerpc64le-linux-gnu",
    fragment="pseries",
    qemu="qemu-system-ppc64",
    qemu_package="qemu-system-ppc",
    console="hvc0",
    binfmt="qemu-ppc64le",
    inventory_group="power",
)

X86_64 = Arch(
    name="x86_64",
    debian="amd64",
    kbuild="x86",
    make_target="bzImage",
    image="arch/x86/boot/bzImage",
    artifact_image="bzImage",
    triple="x86_64-linux-gnu",
    cross_package="gcc-x86-64-linux-gnu",
    fragment="x86",
    qemu="qemu-system-x86_64",
    qemu_package="qemu-system-x86",
    console="ttyS0",
    binfmt="qemu-x86_64",
    inventory_group="x86",
)

ARCHES: dict[str, Arch] = {arch.name: arch for arch in (PPC64LE, X86_64)}


def by_name(name: str) -> Arch:
    """Return the architecture called `name`.

    Raises ToolError (USAGE) for a name that is not one of ARCHES.
    """
    try:
        return ARCHES[name]
    except KeyError:
        raise ToolError(
            f"unknown architecture '{name}'", f"choose one of {', '.join(ARCHES)}", ExitCode.USAGE
        ) from None
