"""What is bound to single CPUs, and so would notice when those go: tasks, deadline tasks, cpusets."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hotplug_host.cpulist import format_cpulist, parse_cpulist
from hotplug_host.sysfs import Sysfs

CGROUPS = "/sys/fs/cgroup"
#: Where version 1 has its cpusets; its root has a cpuset.cpus of its own, that of version 2 has none.
CPUSETS_V1 = f"{CGROUPS}/cpuset"
#: PF_KTHREAD in include/linux/sched.h. What runs in the kernel is the kernel's to move.
KERNEL_THREAD = 0x00200000
SCHED_DEADLINE = 6
#: Of the words after the name in /proc/PID/stat.
STAT_FLAGS, STAT_STARTED, STAT_POLICY = 6, 19, 38


@dataclass(frozen=True)
class Task:
    """A user task. `started` tells it from another one that got its number later."""

    tid: int
    started: str
    name: str
    policy: int
    allowed: frozenset[int]


@dataclass(frozen=True)
class Tasks:
    """User tasks of one name on one CPU list, and how many of them there are."""

    name: str
    cpus: str
    count: int


@dataclass(frozen=True)
class Cpuset:
    """One cpuset that names CPUs. `partition` is None where there are none (version 1)."""

    path: str
    version: int
    cpus: str
    partition: str | None


@dataclass(frozen=True)
class Workloads:
    """All that is bound to CPUs, or needs a part of them by contract."""

    confined: tuple[Tasks, ...]
    deadline: tuple[Tasks, ...]
    cpusets: tuple[Cpuset, ...]


def read_workloads(fs: Sysfs, going: frozenset[int], online: frozenset[int]) -> Workloads:
    """Return what is bound to CPUs. Of tasks, those that may run on none but CPUs that are GOING."""
    confined: Counter[tuple[str, str]] = Counter()
    deadline: Counter[tuple[str, str]] = Counter()
    for task in user_tasks(fs):
        cpus = task.allowed & online
        key = (task.name, format_cpulist(cpus))
        if cpus and cpus <= going:
            confined[key] += 1
        if task.policy == SCHED_DEADLINE:
            deadline[key] += 1
    return Workloads(_grouped(confined), _grouped(deadline), tuple(_cpusets(fs)))


def _grouped(counts: Counter[tuple[str, str]]) -> tuple[Tasks, ...]:
    return tuple(Tasks(name, cpus, count) for (name, cpus), count in sorted(counts.items()))


def user_tasks(fs: Sysfs) -> Iterator[Task]:
    """Yield every task that is not the kernel's. One that ends meanwhile is left out."""
    for process in fs.glob("/proc", "[0-9]*"):
        stat = _stat_words(_read(process / "stat"))
        if stat is None or int(stat[STAT_FLAGS]) & KERNEL_THREAD:
            continue
        for task in sorted(process.glob("task/[0-9]*")):
            words, status = _stat_words(_read(task / "stat")), _read(task / "status")
            allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
            name = re.search(r"^Name:\s*(.*)$", status, re.MULTILINE)
            if words is not None and allowed and name:
                yield Task(
                    int(task.name),
                    words[STAT_STARTED],
                    name[1],
                    int(words[STAT_POLICY]),
                    parse_cpulist(allowed[1]),
                )


def _stat_words(text: str) -> list[str] | None:
    """Return the words of a stat file from the state on; the name before may hold anything, brackets too."""
    words = text.rpartition(")")[2].split()
    return words if len(words) > STAT_POLICY else None


def _cpusets(fs: Sysfs) -> Iterator[Cpuset]:
    first = fs.exists(f"{CPUSETS_V1}/cpuset.cpus")
    root = fs.path(CPUSETS_V1 if first else CGROUPS)
    for directory, below, files in os.walk(root):
        below.sort()
        cpus = _read(Path(directory, "cpuset.cpus")) if "cpuset.cpus" in files else ""
        if not cpus or Path(directory) == root:
            continue
        partition = None if first else _read(Path(directory, "cpuset.cpus.partition")) or "member"
        yield Cpuset(f"/{Path(directory).relative_to(root)}", 1 if first else 2, cpus, partition)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
