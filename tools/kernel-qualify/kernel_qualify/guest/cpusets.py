"""Cpusets of both versions, made for the tests, inside the guest."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from hotplug_host.cpulist import format_cpulist, parse_cpulist
from kernel_qualify.guest.machine import CGROUPS, must, read, say, write

VERSION_1 = Path("/run/cpuset")


class Cpuset:
    """One cpuset below the root of version 2, with the CPUs that are its own; OSError if they are refused."""

    def __init__(self, name: str, cpus: list[int], partition: str = "member") -> None:
        self.folder = CGROUPS / name
        self.cpus = cpus
        self.partition = partition
        write(CGROUPS / "cgroup.subtree_control", "+cpuset")
        self.folder.mkdir(exist_ok=True)
        must(write(self.folder / "cpuset.cpus", format_cpulist(cpus)))
        if partition != "member":
            write(self.folder / "cpuset.cpus.partition", partition)
        say(f"cpuset {name}: {format_cpulist(cpus)}, {self.state()}")

    def effective(self) -> list[int]:
        """Return the CPUs that its tasks may run on."""
        return sorted(parse_cpulist(read(self.folder / "cpuset.cpus.effective")))

    def state(self) -> str:
        """Return the state of its partition."""
        return read(self.folder / "cpuset.cpus.partition")

    def move(self, pid: int) -> int:
        """Move a task here; return the error number."""
        return write(self.folder / "cgroup.procs", pid)

    def remove(self) -> None:
        """End its tasks and remove it."""
        for pid in read(self.folder / "cgroup.procs").split():
            os.kill(int(pid), signal.SIGKILL)
        write(self.folder / "cpuset.cpus.partition", "member")
        for _ in range(100):
            try:
                self.folder.rmdir()
            except OSError:
                continue
            return


def mount_version_1() -> None:
    """Take the controller from version 2, which takes it a while to let it go, and mount version 1."""
    for folder in [*CGROUPS.glob("*/*"), *CGROUPS.glob("*"), CGROUPS]:
        if (folder / "cgroup.subtree_control").exists():
            write(folder / "cgroup.subtree_control", "-cpuset")
    VERSION_1.mkdir(exist_ok=True)
    for _ in range(60):
        if os.system(f"mount -t cgroup -o cpuset none {VERSION_1}") == 0:  # noqa: S605
            return
        time.sleep(1)
    raise RuntimeError("cpusets of version 1 cannot be had")


def make_version_1(name: str, cpus: list[int], balanced: bool) -> Path:
    """Make a cpuset of version 1 whose CPUs no other one balances, nor itself unless `balanced`."""
    folder = VERSION_1 / name
    folder.mkdir(exist_ok=True)
    write(VERSION_1 / "cpuset.sched_load_balance", 0)
    write(folder / "cpuset.mems", read(VERSION_1 / "cpuset.mems"))
    write(folder / "cpuset.cpus", format_cpulist(cpus))
    write(folder / "cpuset.sched_load_balance", int(balanced))
    say(f"cpuset {name} (version 1): {read(folder / 'cpuset.cpus')}")
    return folder


def unmount_version_1() -> None:
    """Move all tasks to the root and give the controller back."""
    for folder in [path for path in VERSION_1.iterdir() if path.is_dir()]:
        for pid in read(folder / "tasks").split():
            write(VERSION_1 / "tasks", pid)
        folder.rmdir()
    write(VERSION_1 / "cpuset.sched_load_balance", 1)
    os.system(f"umount {VERSION_1}")  # noqa: S605
