"""Cores that the hypervisor adds and removes: what each costs the whole machine, stock against patched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotplug_common.kernel.series import PATCHED, VARIANTS
from kernel_qualify.guest.cores import DLPAR
from kernel_qualify.guest.machine import RENDEZVOUS
from kernel_qualify.judge.mdtable import heading, row

GRACE = "synchronize_rcu"
REBUILD = "partition_sched_domains"
ADD, REMOVE = "add", "remove"
ACTIONS = (ADD, REMOVE)
SHARED = {ADD: ("came", 0, 1), REMOVE: ("went", 1, 1)}
"""What all threads of a core share on a patched kernel: the rendezvous and the rebuilds."""
MOST_GRACE = 4
"""Grace periods while a patched kernel adds or removes a core.

One for the lock of CPU hotplug, one for a chunk that goes, and those of user space, as udev moves processes
between cgroups.
"""


@dataclass(frozen=True)
class Change:
    """One core that was added or removed, and how often the whole machine had to wait for it."""

    kernel: str
    action: str
    cpus: int
    """CPUs of the guest while it has the core."""
    switched: int
    """Threads of the core that went or came."""
    grace_periods: int
    rendezvous: int
    rebuilds: int


@dataclass(frozen=True)
class Run:
    """Guests of one shape, stock and patched."""

    line: str
    arch: str
    threads: int
    releases: dict[str, str]
    changes: tuple[Change, ...]

    def of(self, kernel: str, action: str) -> list[Change]:
        """Return the changes of one kind."""
        return [one for one in self.changes if (one.kernel, one.action) == (kernel, action)]


def change(kernel: str, action: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Change:
    """Return what happened between two records of a guest; ValueError unless it was one change of a core."""
    calls = after["calls"]
    if calls[DLPAR] != 1:
        raise ValueError(f"{calls[DLPAR]} calls of {DLPAR}() in place of one")
    return Change(
        kernel=kernel,
        action=action,
        cpus=max(len(before["present"]), len(after["present"])),
        switched=abs(len(after["online"]) - len(before["online"])),
        grace_periods=calls[GRACE],
        rendezvous=calls[RENDEZVOUS],
        rebuilds=max(calls[REBUILD], calls[f"{REBUILD}_locked"]),
    )


def problems(run: Run) -> list[str]:
    """Return what a patched kernel pays more than once for a core, and threads that did not switch."""
    found = [
        f"{one.kernel}, {one.action}: {one.switched} of {run.threads} threads switched"
        for one in run.changes
        if one.switched != run.threads
    ]
    for kernel in VARIANTS:
        found += [
            f"{kernel}, {action}: no core was counted" for action in ACTIONS if not run.of(kernel, action)
        ]
    for action, (verb, *shared) in SHARED.items():
        found += [
            f"{PATCHED}: a core {verb} with {one.rendezvous} rendezvous, {one.rebuilds} rebuilds"
            f" and {one.grace_periods} grace periods"
            for one in run.of(PATCHED, action)
            if [one.rendezvous, one.rebuilds] != shared or one.grace_periods > MOST_GRACE
        ]
    return found


def table(runs: Sequence[Run]) -> str:
    """Return a row for each guest, action and kernel, in Markdown."""
    head = ["guest", "action", "kernel", "cores"]
    lines = heading([*head, "grace periods", "rendezvous", "domain rebuilds"])
    for run in runs:
        for action in reversed(ACTIONS):
            for kernel in VARIANTS:
                lines += [row(_cells(run, run.of(kernel, action)))] if run.of(kernel, action) else []
    return "\n".join([*lines, ""])


def _cells(run: Run, found: Sequence[Change]) -> list[str]:
    first = found[0]
    counts = [
        _range([getattr(one, name) for one in found]) for name in ("grace_periods", "rendezvous", "rebuilds")
    ]
    shape = f"{run.arch}, {first.cpus // run.threads} x {run.threads}"
    return [shape, first.action, first.kernel, str(len(found)), *counts]


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def load(path: Path) -> Run:
    """Read what keeping.save() wrote; KeyError or TypeError for anything else."""
    facts = json.loads(path.read_text())
    return Run(**{**facts, "changes": tuple(Change(**one) for one in facts["changes"])})
