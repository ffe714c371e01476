"""From the costs of a switch's parts to how long all of it takes, on the stock kernel and the patched one.

How often the patched kernel does what follows from the series alone: it takes CPUs in chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hotplug_host.operations import OFF
from hotplug_timer.predict.costs import Costs

#: How far the ends of a range are from its middle. Single CPUs were measured, and not chunks.
SPREAD = 2.4
#: The same for the kernel that was measured, of which single CPUs are typical.
STOCK_SPREAD = 1.5
#: Seconds of each turn on x86-64 in which interrupts under way arrive. The series waits once in a rendezvous.
ARRIVAL = {"x86_64": 0.001}


@dataclass(frozen=True)
class Size:
    """A switch of `toggled` of `cpus` CPUs online, and how many of them the patched kernel takes at once."""

    cpus: int
    toggled: int
    chunk: int

    @property
    def chunks(self) -> int:
        """Return in how many chunks they go."""
        return math.ceil(self.toggled / self.chunk)

    @property
    def share(self) -> float:
        """Return the part of the CPUs that is online in the middle of the switch."""
        return 1 - self.toggled / (2 * self.cpus)


@dataclass(frozen=True)
class Machine:
    """What the patched kernel does for this machine.

    `ceded` is how much shorter turns in a rendezvous are because CPUs that wait give their processors to the
    one whose turn it is; 1 where they do not. `arrival` is what the series takes out of each turn and waits
    for once, in seconds.
    """

    ceded: float = 1.0
    arrival: float = 0.0


@dataclass(frozen=True)
class Events:
    """How often a switch makes the whole machine wait."""

    grace_periods: int
    rendezvous: int
    rebuilds: int


@dataclass(frozen=True)
class Range:
    """Seconds, from the least to the most."""

    low: float
    high: float

    @classmethod
    def around(cls, seconds: float, spread: float) -> Range:
        """Return the range whose ends are that factor away from its middle."""
        return cls(seconds / spread, seconds * spread)


def events_of(direction: str, size: Size) -> Events:
    """Return what the patched kernel's switch does: one grace period for the lock, the others by chunk."""
    if direction == OFF:
        return Events(size.chunks + 1, size.chunks, size.chunks)
    return Events(1, 0, size.chunks)


def stock(costs: Costs, size: Size) -> Range:
    """Return the seconds of the kernel that was measured."""
    return _like(costs.seconds, costs, size)


def one_by_one(costs: Costs, size: Size) -> Range:
    """Return the seconds CPU by CPU with expedited grace periods.

    So goes the measured kernel with `smt --expedite`, and the patched one where a state holds bulk back.
    """
    return _like(costs.expedited_seconds, costs, size)


def patched(costs: Costs, size: Size, machine: Machine) -> Range:
    """Return the seconds of the patched kernel.

    The CPUs of a chunk gather once, park and are waited for at the same time, and die in turns. Gathering
    counts in full also where CPUs share processors: there each has to be dispatched once, for its turn.
    """
    return Range.around(_middle(costs, size, machine), SPREAD)


def dying_alone(costs: Costs, size: Size, machine: Machine) -> Range:
    """Return the patched kernel's seconds if firmware stops CPUs one at a time, however many wait for it."""
    more = (size.toggled - events_of(costs.direction, size).rendezvous) * costs.death
    return Range.around(_middle(costs, size, machine) + more, SPREAD)


def _middle(costs: Costs, size: Size, machine: Machine) -> float:
    events, number = events_of(costs.direction, size), size.toggled
    arrival = min(machine.arrival, costs.turn)
    return (
        events.grace_periods * costs.expedited
        + events.rebuilds * costs.rebuild
        + events.rendezvous * (costs.gather + arrival + costs.park + costs.death)
        + number * ((costs.turn - arrival) / machine.ceded + costs.each - costs.crash)
    )


def _like(seconds: float, costs: Costs, size: Size) -> Range:
    """Return what a switch takes whose CPUs go one by one: costs may fall with the CPUs online."""
    every = seconds / costs.switched * size.toggled
    return Range(size.share * every / STOCK_SPREAD, every * STOCK_SPREAD)
