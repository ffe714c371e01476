"""Which timings share their prices.

Counted ones share them all: the same event costs the same under every variant, as far as the model goes.
Where nobody counted, a kind of event has a price of its own for each operation and variant; only the
baseline and the same kernel with expedited grace periods share everything but those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from hotplug_common.timings import Counts, Timing
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.predict.counts import (
    Switch,
    assumed_work,
    is_per_cpu,
    measured_work,
    switch_of,
    work_at,
)
from hotplug_timer.predict.fit import Fit, Row, fit
from hotplug_timer.predict.model import Work

#: An operation and a variant.
Series = tuple[str, str]


@dataclass(frozen=True)
class Roles:
    """What variants are: the baseline, and those that are it with all grace periods expedited.

    `chunk` is how many CPUs a kernel that switches them in chunks takes at once.
    """

    baseline: str
    expedited: tuple[str, ...]
    chunk: int


@dataclass(frozen=True)
class Group:
    """Timings that share prices. Fitted when first asked for."""

    timings: tuple[Timing, ...]
    roles: Roles
    counted: bool

    @cached_property
    def fit(self) -> Fit:
        """Return the prices."""
        return fit([Row(self._measured(timing), timing.seconds, timing.error) for timing in self.timings])

    @property
    def sizes(self) -> list[int]:
        """Return the machine sizes there are timings of, ascending."""
        return sorted({timing.cpus for timing in self.timings})

    @property
    def series(self) -> list[Series]:
        """Return the (operation, variant) pairs in here."""
        return list(dict.fromkeys((timing.operation, timing.variant) for timing in self.timings))

    def of(self, operation: str, variant: str) -> list[Timing]:
        """Return the timings that tell of this variant under this operation, smallest machine first."""
        found = [
            timing
            for timing in self.timings
            if timing.operation == operation and self._role(timing.variant) == self._role(variant)
        ]
        return sorted(found, key=lambda timing: timing.cpus)

    def counts(self, operation: str, variant: str) -> list[Counts]:
        """Return what was counted of one variant under one operation."""
        return [timing.counts for timing in self.of(operation, variant) if timing.counts]

    def work(self, series: Series, cpus: int, toggled: int) -> Work:
        """Return what a switch of another size does, by this group's timings of that variant."""
        last = self.of(*series)[-1]
        switch = Switch(last.direction, cpus, toggled, last.fqs_base)
        if not self.counted:
            return assumed_work(switch, series[1] in self.roles.expedited)
        return work_at(self.counts(*series), switch, self.roles.chunk)

    def by_chunk(self, operation: str, variant: str) -> bool:
        """Whether what was counted does not grow with the CPUs, so that chunks are taken to be paid for."""
        counted = self.counts(operation, variant)
        return self.counted and not is_per_cpu(counted)

    def _measured(self, timing: Timing) -> Work:
        if timing.counts is None or not self.counted:
            return assumed_work(switch_of(timing), timing.variant in self.roles.expedited)
        return measured_work(switch_of(timing), timing.counts)

    def _role(self, variant: str) -> str:
        # With prices of its own a variant is nobody's like: only the uncounted share a role.
        shared = not self.counted and variant in self.roles.expedited
        return self.roles.expedited[0] if shared else variant


def group(timings: Sequence[Timing], roles: Roles) -> list[Group]:
    """Return the timings in groups; ToolError (INPUT) when seconds of emulated CPUs are among others."""
    if len({timing.emulated for timing in timings}) > 1:
        raise ToolError(
            "some of these timings are emulated and some are not: their seconds do not compare",
            "predict from one kind at a time",
            ExitCode.INPUT,
        )
    groups = []
    counted = tuple(timing for timing in timings if timing.counts)
    if counted:
        groups.append(Group(counted, roles, counted=True))
    rest = [timing for timing in timings if not timing.counts]
    shared = {roles.baseline, *roles.expedited}
    for operation in _unique(timing.operation for timing in rest):
        mine = [timing for timing in rest if timing.operation == operation]
        groups.extend(_uncounted(mine, shared, roles))
    return groups


def _uncounted(timings: Sequence[Timing], shared: Collection[str], roles: Roles) -> Iterable[Group]:
    together = tuple(timing for timing in timings if timing.variant in shared)
    if together:
        yield Group(together, roles, counted=False)
    for variant in _unique(timing.variant for timing in timings if timing.variant not in shared):
        alone = tuple(timing for timing in timings if timing.variant == variant)
        yield Group(alone, roles, counted=False)


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
