"""Where interrupts, network queues and tasks may run: kept before a switch, and looked at once it is undone.

The kernel takes CPUs from all three when they go, and gives none back when they come again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hotplug_host.cpulist import format_cpulist, parse_cpulist
from hotplug_host.holder import read_record, write_record
from hotplug_host.preflight.workloads import user_tasks
from hotplug_host.restore import put_affinities_back, read_affinities
from hotplug_host.sysfs import BOOT_ID, Sysfs
from hotplug_host.topology import read_online, read_present

PLACEMENT = "placement.json"
NETWORK = "/sys/class/net"
#: How many of a kind are named.
NAMED = 5


def keep(fs: Sysfs, staging: Path) -> None:
    """Write down what is where, for the switches of this boot that follow."""
    online = read_online(fs)
    record = {
        "boot_id": fs.read_optional(BOOT_ID),
        "online": format_cpulist(online),
        "interrupts": read_affinities(fs),
        "queues": read_queues(fs),
        "tasks": {
            str(task.tid): [task.started, task.name, format_cpulist(task.allowed)]
            for task in user_tasks(fs)
            if not online <= task.allowed
        },
    }
    write_record(staging / PLACEMENT, record)


def put_back(fs: Sysfs, staging: Path) -> list[str]:
    """Give interrupts the CPUs back that they had; return what is lost, in lines.

    Only on a host that has the CPUs of then: else what is kept waits. A record of another boot is void.
    """
    record = read_record(staging / PLACEMENT, ())
    if record is None:
        return []
    lost: list[str] = []
    if record.get("boot_id") == fs.read_optional(BOOT_ID):
        if not parse_cpulist(record["online"]) & read_present(fs) <= read_online(fs):
            return []
        refused = put_affinities_back(fs, record["interrupts"])
        if refused:
            lost.append(f"interrupts {', '.join(refused)} did not take back the CPUs that they had")
        lost += _first(list(_queues(fs, record["queues"])), "network queues")
        lost += _first(list(_tasks(fs, record["tasks"])), "tasks")
    (staging / PLACEMENT).unlink()
    return lost


def read_queues(fs: Sysfs) -> dict[str, str]:
    """Return the CPU masks of network queues (RPS, XPS), by their files."""
    files = (f"/{path.relative_to(fs.root)}" for path in fs.glob(NETWORK, "*/queues/*/[rx]ps_cpus"))
    return {name: mask for name in files if (mask := fs.read_optional(name)) is not None}


def _queues(fs: Sysfs, saved: dict[str, str]) -> Iterator[str]:
    now = read_queues(fs)
    for name, mask in saved.items():
        if now.get(name, mask) != mask:
            yield f"{name} says {now[name]} and said {mask} before the switch"


def _tasks(fs: Sysfs, saved: dict[str, Any]) -> Iterator[str]:
    for task in user_tasks(fs):
        started, name, was = saved.get(str(task.tid), (None, "", ""))
        now = format_cpulist(task.allowed)
        if started == task.started and now != was:
            yield f"task {task.tid} ({name}) may run on CPUs {now}, and before the switch on {was}"


def _first(lines: Sequence[str], what: str) -> list[str]:
    more = [f"{len(lines) - NAMED} more {what} have other CPUs than before"] if len(lines) > NAMED else []
    return [*lines[:NAMED], *more]
