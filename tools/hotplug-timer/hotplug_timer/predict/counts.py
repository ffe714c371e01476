"""How often a switch does what, and how that grows with the CPUs it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hotplug_common.timings import Counts, Timing
from hotplug_timer.predict.model import CPU_OFF, CPU_ON, EXPEDITED, GRACE, REBUILD, RENDEZVOUS, Work

#: CPUs that a kernel which switches them in chunks takes at once, unless told otherwise.
CHUNK = 64


@dataclass(frozen=True)
class Switch:
    """A switch of `toggled` of `cpus` CPUs, "off" or "on". `fqs_base`: see `Work`."""

    direction: str
    cpus: int
    toggled: int
    fqs_base: int | None

    @property
    def cpu_kind(self) -> str:
        """Return the kind of event that one CPU of it is."""
        return CPU_OFF if self.direction == "off" else CPU_ON


def switch_of(timing: Timing) -> Switch:
    """Return what was timed."""
    return Switch(timing.direction, timing.cpus, timing.toggled, timing.fqs_base)


def events_of(counts: Counts) -> dict[str, float]:
    """Return the counts by kind of event."""
    return {
        GRACE: counts.grace_periods,
        EXPEDITED: counts.expedited,
        RENDEZVOUS: counts.rendezvous,
        REBUILD: counts.rebuilds,
    }


@dataclass(frozen=True)
class Law:
    """A count as a line over units: CPUs switched, or chunks of them."""

    fixed: float
    each: float

    def at(self, units: float) -> float:
        """Return the count for so many units."""
        return self.fixed + self.each * units


def learn(points: Sequence[tuple[float, float]]) -> Law:
    """Return the line through (units, count) points; it neither falls nor starts below 0.

    With one number of units, whole counts per unit are taken to grow and the rest to be there once.
    """
    units = np.array([point[0] for point in points])
    counts = np.array([point[1] for point in points])
    if np.ptp(units) > 0:
        each, fixed = np.polyfit(units, counts, 1)
        if each >= 0 and fixed >= 0:
            return Law(float(fixed), float(each))
        if each < 0:
            return Law(float(counts.mean()), 0.0)
        return Law(0.0, float(counts.sum() / units.sum()))
    each = math.floor(counts.mean() / units[0])
    return Law(float(counts.mean() - each * units[0]), float(each))


def is_per_cpu(counted: Sequence[Counts]) -> bool:
    """Whether this variant pays by the CPU; otherwise it is taken to pay by the chunk."""
    return any(2 * max(events_of(counts).values()) >= counts.toggled for counts in counted)


def measured_work(switch: Switch, counts: Counts) -> Work:
    """Return the events of a switch as counted."""
    return Work(switch.cpus, {switch.cpu_kind: float(switch.toggled), **events_of(counts)}, switch.fqs_base)


def work_at(counted: Sequence[Counts], switch: Switch, chunk: int) -> Work:
    """Return the events of a switch, by what was counted of others in the same direction."""
    per_cpu = is_per_cpu(counted)

    def units(number: int) -> float:
        return number if per_cpu else math.ceil(number / chunk)

    events = {
        kind: learn([(units(counts.toggled), events_of(counts)[kind]) for counts in counted]).at(
            units(switch.toggled)
        )
        for kind in (GRACE, EXPEDITED, RENDEZVOUS, REBUILD)
    }
    return Work(switch.cpus, {switch.cpu_kind: float(switch.toggled), **events}, switch.fqs_base)


def assumed_work(switch: Switch, expedited: bool) -> Work:
    """Return the events of a switch nobody counted: one of each kind for each CPU.

    How many there really are does not matter, as the price takes it up. A CPU that comes up needs no
    rendezvous.
    """
    number = float(switch.toggled)
    events = {switch.cpu_kind: number, EXPEDITED if expedited else GRACE: number, REBUILD: number}
    if switch.direction == "off":
        events[RENDEZVOUS] = number
    return Work(switch.cpus, events, switch.fqs_base)
