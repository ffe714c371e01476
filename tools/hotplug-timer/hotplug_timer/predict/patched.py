"""From the costs of a switch's parts to how long all of it takes, on the stock kernel and the patched one.

How often the patched kernel does what follows from the series alone: it takes CPUs in chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hotplug_host.operations import OFF
from hotplug_timer.predict.costs import Costs

#: How far both ends of a range are moved apart: costs were measured on single CPUs.
WIDENED = 1.5


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

    @property
    def widened(self) -> Range:
        """Return the range with its ends moved apart."""
        return Range(self.low / WIDENED, self.high * WIDENED)


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


def patched(costs: Costs, size: Size) -> Range:
    """Return the seconds of the patched kernel.

    Low: what the machine waits for gets shorter with the CPUs online, and the CPUs of a chunk park at the
    same time and share one rendezvous: their turns waited for CPUs that spin, which the series has yield.
    High: none of this. A turn that was not measured is a whole rendezvous.
    """
    events, number = events_of(costs.direction, size), size.toggled
    waits = (events.grace_periods + number * costs.kept) * costs.expedited + events.rebuilds * costs.rebuild
    turn = costs.rendezvous if costs.turn is None else costs.turn
    low = (
        size.share * (waits + events.rendezvous * costs.rendezvous)
        + events.rendezvous * (costs.park + costs.death)
        + number * max(0.0, min(costs.each, costs.each_expedited) - costs.crash)
    )
    high = (
        waits
        + events.rendezvous * (costs.rendezvous - turn + costs.death)
        + number * (turn + costs.park + max(costs.each, costs.each_expedited))
    )
    return Range(low, high).widened


def dying_alone(costs: Costs, size: Size) -> Range:
    """Return the patched kernel's seconds if firmware stops CPUs one at a time, however many wait for it."""
    more = (size.toggled - events_of(costs.direction, size).rendezvous) * costs.death
    found = patched(costs, size)
    return Range(found.low + more / WIDENED, found.high + more * WIDENED)


def _like(seconds: float, costs: Costs, size: Size) -> Range:
    every = seconds / costs.switched * size.toggled
    return Range(size.share * every, every).widened
