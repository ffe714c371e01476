"""What several readings of a host begin with: its mounts, the links that are up, where dumps go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hotplug_host.sysfs import Sysfs

NET = "/sys/class/net"
SELINUX_ENFORCES = "/sys/fs/selinux/enforce"
CRASH_LOADED = "/sys/kernel/kexec_crash_loaded"
#: Whether a firmware-assisted dump is registered; the second name is that of kernels before 5.10.
FADUMP = ("/sys/kernel/fadump/registered", "/sys/kernel/fadump_registered")


@dataclass(frozen=True)
class Mount:
    """What is mounted somewhere: a device or a server, its file system, and the options."""

    source: str
    kind: str
    options: tuple[str, ...]

    @property
    def read_only(self) -> bool:
        """Whether it cannot be written to."""
        return "ro" in self.options


def read_words(fs: Sysfs, name: str) -> Iterator[list[str]]:
    """Yield the words of each line of a file that has some, without comments; nothing where it is missing."""
    for line in (fs.read_optional(name) or "").splitlines():
        words = line.split()
        if words and not words[0].startswith("#"):
            yield words


def read_mounts(fs: Sysfs, name: str = "/proc/mounts") -> dict[str, Mount]:
    """Return what is mounted by mount point; of /etc/fstab, what is to be."""
    lines = (words for words in read_words(fs, name) if words[3:])
    return {words[1]: Mount(words[0], words[2], tuple(words[3].split(","))) for words in lines}


def read_links_up(fs: Sysfs) -> list[str]:
    """Return the names of the network interfaces that are up, sorted."""
    paths = fs.path(NET).glob("*/operstate")
    names = (path.parent.name for path in paths)
    return sorted(name for name in names if fs.read_optional(f"{NET}/{name}/operstate") == "up")
