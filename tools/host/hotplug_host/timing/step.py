"""One step of a run."""

from __future__ import annotations

from dataclasses import dataclass

from hotplug_host.timing.operation import Operation


@dataclass(frozen=True)
class Step:
    """One transition of the plan: the phase and number it is recorded under."""

    phase: str
    index: int
    position: int
    operation: Operation
