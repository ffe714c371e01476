"""Fit on the smaller machines, predict the larger ones, and say how far off that was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from hotplug_common.timings import Timing
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.predict.fit import Forecast, forecast
from hotplug_timer.predict.groups import Group, Roles, group


@dataclass(frozen=True)
class Check:
    """A measured time against its prediction from machines of up to `largest` CPUs."""

    largest: int
    timing: Timing
    forecast: Forecast

    @property
    def error(self) -> float:
        """Return predicted over measured, less 1: 0 is right, 1 twice too long."""
        return self.forecast.seconds / self.timing.seconds - 1

    @property
    def covered(self) -> bool:
        """Whether the measured time is in the interval."""
        interval = self.forecast.interval
        return interval.low <= self.timing.seconds <= interval.high


@dataclass(frozen=True)
class Digest:
    """All checks of one operation and variant from machines of up to `largest` CPUs.

    `factor` is the median of how many times too long or too short the predictions are, `worst` the most.
    """

    operation: str
    variant: str
    largest: int
    n: int
    factor: float
    worst: float
    covered: int


@dataclass(frozen=True)
class Validation:
    """What `predict --validate` shows; `left_out` could not be checked."""

    emulated: bool
    checks: tuple[Check, ...]
    left_out: tuple[str, ...]

    @property
    def digests(self) -> list[Digest]:
        """Return the checks taken together, smallest machines first."""
        cells: dict[tuple[str, str, int], list[Check]] = {}
        for check in self.checks:
            key = (check.timing.operation, check.timing.variant, check.largest)
            cells.setdefault(key, []).append(check)
        return [_digest(*key, checks) for key, checks in cells.items()]


def validate(timings: Sequence[Timing], roles: Roles) -> Validation:
    """Hold every timing against predictions from smaller machines; ToolError (INPUT) when there are none."""
    checks = [check for one in group(timings, roles) for check in _checks(one)]
    if not checks:
        raise ToolError(
            "no variant was timed on machines of two sizes: there is nothing to check",
            "add timings of another size",
            ExitCode.INPUT,
        )
    checked = {(check.timing.operation, check.timing.variant) for check in checks}
    left_out = dict.fromkeys(
        f"{timing.operation} {timing.variant}: only timed on machines of {timing.cpus} CPUs"
        for timing in timings
        if (timing.operation, timing.variant) not in checked
        and not _smaller_and_alike(timing, timings, roles)
    )
    return Validation(timings[0].emulated, tuple(checks), tuple(left_out))


def _checks(whole: Group) -> Iterator[Check]:
    for largest in whole.sizes[:-1]:
        small = Group(
            tuple(timing for timing in whole.timings if timing.cpus <= largest), whole.roles, whole.counted
        )
        known: dict[tuple[str, str, int, int], Forecast] = {}
        for timing in sorted(
            whole.timings, key=lambda timing: (timing.operation, timing.variant, timing.cpus)
        ):
            if timing.cpus <= largest or not small.of(timing.operation, timing.variant):
                continue
            # Several publications of one size are one prediction.
            key = (timing.operation, timing.variant, timing.cpus, timing.toggled)
            if key not in known:
                known[key] = forecast(
                    small.fit, small.work((timing.operation, timing.variant), timing.cpus, timing.toggled)
                )
            yield Check(largest, timing, known[key])


def _smaller_and_alike(timing: Timing, timings: Sequence[Timing], roles: Roles) -> bool:
    """Whether a timing takes part in a check of another variant in the same role."""
    alike = timing.variant in roles.expedited
    return alike and any(
        other.variant in roles.expedited and other.operation == timing.operation and other.cpus != timing.cpus
        for other in timings
    )


def _digest(operation: str, variant: str, largest: int, checks: Sequence[Check]) -> Digest:
    factors = [float(np.exp(abs(np.log1p(check.error)))) for check in checks]
    covered = sum(check.covered for check in checks)
    return Digest(operation, variant, largest, len(checks), median(factors), max(factors), covered)
