"""The cost model: what one event of each kind costs, and how that grows with the number of CPUs.

seconds = sum over events of count x price x growth(CPUs), where growth is (CPUs / REFERENCE) ** power,
and for a grace period that is not expedited also the kernel's own wait before it forces quiescent states.
docs/guides/kernel-developers/predict.md has the reasons for each default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hotplug_common.stats import Floats
from hotplug_host.rcu import fqs_delay

#: Prices are for a machine of this many CPUs. Any number would do; it keeps prices of one order.
REFERENCE = 100

CPU_OFF, CPU_ON = "cpu off", "cpu on"
GRACE, EXPEDITED, RENDEZVOUS, REBUILD = "grace period", "expedited", "rendezvous", "rebuild"


@dataclass(frozen=True)
class Term:
    """One kind of event. Its price grows with CPUs ** power; `tried` are the powers a fit may choose.

    A power costs a fit ((power - default) / spread) ** 2, in units of a squared standardised residual.
    """

    words: str
    default: float
    spread: float
    tried: tuple[float, ...]

    def penalty(self, power: float) -> float:
        """Return what choosing this power costs."""
        return ((power - self.default) / self.spread) ** 2


_PER_CPU = (0.0, 0.3, (0.0, 0.3, 0.6))
TERMS: Mapping[str, Term] = {
    CPU_OFF: Term("taking a CPU down", *_PER_CPU),
    CPU_ON: Term("bringing a CPU up", *_PER_CPU),
    GRACE: Term("grace periods", 0.0, 0.2, (0.0, 0.2, 0.4)),
    EXPEDITED: Term("expedited grace periods", 0.5, 0.3, (0.0, 0.5, 1.0)),
    RENDEZVOUS: Term("rendezvous", 1.0, 0.4, (0.5, 1.0, 1.4, 1.8)),
    REBUILD: Term("rebuilds of the scheduler domains", 1.5, 0.4, (1.0, 1.5, 2.0)),
}
#: Terms that always grow alike: one power for both directions.
POWER_OF = {name: CPU_OFF if name == CPU_ON else name for name in TERMS}


@dataclass(frozen=True)
class Work:
    """What one switch does: events by kind, on a machine of so many CPUs.

    `fqs_base` is the first wait for quiescent states on a small machine, in jiffies; None where
    somebody set it, and it does not grow.
    """

    cpus: int
    events: Mapping[str, float]
    fqs_base: int | None = 1

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of event that happen at all."""
        return frozenset(name for name, count in self.events.items() if count > 0)


def grace_growth(cpus: int, base: int | None) -> float:
    """Return how much longer the kernel waits before it forces quiescent states than with few CPUs.

    As in rcu_init_geometry(): base + CPUs / 256 jiffies, in whole jiffies.
    """
    return 1.0 if base is None else fqs_delay(base, cpus) / base


def design_row(work: Work, kinds: Sequence[str], powers: Mapping[str, float]) -> Floats:
    """Return count x growth for each kind, shape (len(kinds),): seconds are its product with prices."""
    size = work.cpus / REFERENCE
    row = [work.events.get(kind, 0.0) * size ** powers[POWER_OF[kind]] for kind in kinds]
    shape = [grace_growth(work.cpus, work.fqs_base) if kind == GRACE else 1.0 for kind in kinds]
    product: Floats = np.asarray(row) * np.asarray(shape)
    return product
