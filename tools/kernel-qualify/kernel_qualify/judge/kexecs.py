"""What a chain of kexecs lost: CPUs that the next kernel could not start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hotplug_host.cpulist import format_cpulist


@dataclass(frozen=True)
class Boot:
    """A kernel of the chain: `jump` counts from 0, the boot from power-on; `lost` are CPUs it has not."""

    jump: int
    lost: tuple[int, ...]


def boots(records: Sequence[Mapping[str, Any]]) -> list[Boot]:
    """Read the records of the guest's script `kexecs`, in the order of the boots."""
    return [
        Boot(jump, tuple(sorted({*one["present"]} - {*one["online"]}))) for jump, one in enumerate(records)
    ]


def problems(chain: Sequence[Boot], jumps: int) -> list[str]:
    """Name the jump that lost CPUs, and how many jumps were made where it was not the last one."""
    found = [
        f"CPUs {format_cpulist(boot.lost)} did not start after {_jump(boot.jump, jumps)}"
        for boot in chain
        if boot.lost
    ]
    if len(chain) != jumps + 1:
        found.append(f"{max(0, len(chain) - 1)} of {jumps} jumps were made")
    return found


def _jump(jump: int, jumps: int) -> str:
    return f"jump {jump} of {jumps}" if jump else "power-on"
