"""How far the system clock departs from another clock: rates, jumps and bounds from samples.

A sample says that the reference showed R at some moment between B and A of the system clock. So system minus
reference was somewhere from B - R to A - R: an interval, which holds whatever delayed the reading. All
that is concluded here holds for every clock that fits the intervals; nothing rests on averages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hotplug_host.clocks.probe import Line
from hotplug_host.errors import ExitCode, ToolError

NSEC_PER_SEC = 1_000_000_000
SECONDS_PER_DAY = 86400.0
#: With fewer samples of a CPU nothing is said about its clock.
LEAST_SAMPLES = 4


@dataclass(frozen=True)
class Sample:
    """One reading, in nanoseconds: the reference between two readings of the system clock."""

    before: int
    reference: int
    after: int

    @property
    def low(self) -> int:
        """The least that system minus reference can have been."""
        return self.before - self.reference

    @property
    def high(self) -> int:
        """The most it can have been."""
        return self.after - self.reference


@dataclass(frozen=True)
class Departure:
    """How one CPU's clock departed from the reference over `span_s` seconds.

    The average rate is in parts per million, above 0 when the system clock is fast, and known to
    `uncertainty_ppm`: half of what the samples at both ends leave open.
    `jumps` counts steps that no rate allowed could have made; `worst_jump_s` is the least that the largest
    of them can have been, in seconds.
    """

    samples: int
    span_s: float
    rate_ppm: float
    uncertainty_ppm: float
    jumps: int
    worst_jump_s: float

    @property
    def most_ppm(self) -> float:
        """The most that the rate can differ from the reference's."""
        return abs(self.rate_ppm) + self.uncertainty_ppm

    @property
    def surely_ppm(self) -> float:
        """The least that it must differ."""
        return max(abs(self.rate_ppm) - self.uncertainty_ppm, 0.0)


@dataclass(frozen=True)
class Offset:
    """How far a CPU's clock is ahead of another CPU's: from `low_s` to `high_s` seconds."""

    cpu: int
    base: int
    low_s: float
    high_s: float

    @property
    def problem(self) -> str | None:
        """Say what is wrong; None when the two clocks can be equal."""
        if self.low_s > self.high_s:
            return (
                f"CPU {self.cpu}'s clock jumped against CPU {self.base}'s by {self.low_s - self.high_s:.3g} s"
            )
        if self.low_s > 0:
            return f"CPU {self.cpu}'s clock is at least {self.low_s:.3g} s ahead of CPU {self.base}'s"
        if self.high_s < 0:
            return f"CPU {self.cpu}'s clock is at least {-self.high_s:.3g} s behind CPU {self.base}'s"
        return None


def read_samples(lines: Sequence[Line]) -> dict[int, list[Sample]]:
    """Return the samples of each CPU, in time order."""
    found: dict[int, list[Sample]] = {}
    for line in lines:
        sample = Sample(line["before_ns"], line["reference_ns"], line["after_ns"])
        found.setdefault(line["cpu"], []).append(sample)
    return found


def read_offsets(lines: Sequence[Line]) -> tuple[Offset, ...]:
    """Return the offsets that the probe measured."""
    return tuple(
        Offset(line["cpu"], line["base"], line["low_ns"] / NSEC_PER_SEC, line["high_ns"] / NSEC_PER_SEC)
        for line in lines
    )


def departure(samples: Sequence[Sample], most_ppm: float) -> Departure:
    """Return what the samples (in time order) say; steps that MOST_PPM allows are no jumps.

    ToolError (ENVIRONMENT) when they are too few, or the reference stands still.
    """
    if len(samples) < LEAST_SAMPLES:
        raise ToolError(
            f"{len(samples)} samples of a CPU are too few to tell a rate",
            "give more --seconds, or fewer --cpus",
            ExitCode.ENVIRONMENT,
        )
    quarter = len(samples) // LEAST_SAMPLES
    first, last = min(samples[:quarter], key=_width), min(samples[-quarter:], key=_width)
    span = last.reference - first.reference
    if span <= 0:
        raise ToolError(
            "the reference clock does not advance", "name another --reference", ExitCode.ENVIRONMENT
        )
    low, high = last.low - first.high, last.high - first.low
    jumps = [gap for pair in zip(samples, samples[1:]) if (gap := jump(*pair, most_ppm)) > 0]
    return Departure(
        samples=len(samples),
        span_s=span / NSEC_PER_SEC,
        rate_ppm=(high + low) / 2 / span * 1e6,
        uncertainty_ppm=(high - low) / 2 / span * 1e6,
        jumps=len(jumps),
        worst_jump_s=max(jumps, default=0.0) / NSEC_PER_SEC,
    )


def jump(before: Sample, after: Sample, most_ppm: float) -> float:
    """Return the least that the clock must have jumped between two samples, in ns; 0 when it may not have."""
    allowed = abs(after.reference - before.reference) * most_ppm * 1e-6
    forward, backward = after.low - before.high, before.low - after.high
    return max(forward - allowed, backward - allowed, 0.0)


def _width(sample: Sample) -> int:
    return sample.after - sample.before
