"""Writes the vectors of the clock-event KUnit test: kernel/time/clockevents_vectors.h of the patches.

The kernel computes in 32 and 64 bits. This script computes the expected results with integers of unlimited
size. It always writes the same vectors: `python -m kernel_qualify.patches.clockevent_vectors`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

NSEC_PER_SEC = 1_000_000_000
U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1
SEED = 20_261_122
#: The multiplier that is adjusted has as many digits as leave room for an eighth more in 32.
DIGITS = 31
MOST_SHIFT = 63
#: Deltas less than a microsecond are noise (clockevents.c).
LEAST_NS = 1000
WIDTH = 88

HEADER = """\
/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Computed by a script, with integers of unlimited size.
 *
 * A device (mult, shift) at a rate of CLOCK_MONOTONIC (mono_mult, raw_mult) has
 * to be adjusted to adj_mult and adj_shift, and ns nanoseconds to become ticks.
 */
static const struct rate_vector {
	u32	mult;
	u32	shift;
	u32	mono_mult;
	u32	raw_mult;
	u32	adj_mult;
	u32	adj_shift;
	u64	ns;
	u64	ticks;
} rate_vectors[] = {
"""
BETWEEN = """\
};

/* This many ticks take at least min_ns; max_ns become at most this many ticks. */
static const struct limit_vector {
	u32	mult;
	u32	shift;
	u64	ticks;
	u64	min_ns;
	u64	max_ns;
} limit_vectors[] = {
"""
FOOTER = "};\n"


@dataclass(frozen=True)
class Device:
    """What a driver sets: nanoseconds * mult / 2^shift are ticks, and how many it can count."""

    mult: int
    shift: int
    max_ticks: int

    @property
    def max_ns(self) -> int:
        """The device's max_delta_ns."""
        return limit_ns(self, self.max_ticks, is_max=True)


@dataclass(frozen=True)
class Rate:
    """CLOCK_MONOTONIC advances by mono nanoseconds while CLOCK_MONOTONIC_RAW does by raw."""

    mono: int
    raw: int


@dataclass(frozen=True)
class Adjusted:
    """What the core makes of both."""

    mult: int
    shift: int

    def ticks(self, ns: int) -> int:
        """Return what is programmed for an event in `ns`, if the device can count that far."""
        return ns * self.mult >> self.shift


def config(freq: int, max_ticks: int) -> Device:
    """Choose mult and shift as clockevents_config() does, of any frequency."""
    sec = max(max_ticks // freq, 1)
    if sec > 600 and max_ticks > U32_MAX:
        sec = 600
    digits = 32 - (sec * NSEC_PER_SEC >> 32).bit_length()
    for shift in range(32, 0, -1):
        mult = ((freq << shift) + NSEC_PER_SEC // 2) // NSEC_PER_SEC
        if mult < 1 << digits:
            return Device(mult, shift, max_ticks)
    raise ValueError(freq)


def limit_ns(device: Device, ticks: int, *, is_max: bool) -> int:
    """How long `ticks` take: rounded up, but for a maximum of a device beyond 1 GHz."""
    scaled = min(ticks << device.shift, U64_MAX) if ticks << device.shift > U64_MAX else ticks << device.shift
    up = device.mult - 1
    if scaled + up < U64_MAX and (not is_max or device.mult <= 1 << device.shift):
        scaled += up
    return max(scaled // device.mult, LEAST_NS)


def adjusted(device: Device, rate: Rate) -> Adjusted:
    """Adjust a device to a rate: nearest, and by at most an eighth."""
    more = DIGITS - device.mult.bit_length()
    more = max(more, -1) if device.shift else max(more, 0)
    more = min(more, MOST_SHIFT - device.shift)
    base = device.mult << more if more >= 0 else (device.mult + 1) // 2
    exact = Fraction(base * rate.raw, rate.mono)
    nearest = int(exact + Fraction(1, 2))
    most = base // 8
    return Adjusted(min(max(nearest, base - most), base + most, U32_MAX), device.shift + more)


def devices() -> list[Device]:
    """From 1 Hz to 10 GHz, and what drivers choose by themselves."""
    return [
        config(1, 2**16 - 1),
        config(1000, 2**32 - 1),
        config(32_768, 2**16 - 1),
        config(1_193_182, 0x7FFF),
        config(3_579_545, 2**24 - 1),
        config(14_318_180, 0x7FFFFFFF),
        config(24_000_000, 2**56 - 1),
        config(62_500_000, 0x7FFFFF),
        config(512_000_000, 0x7FFFFFFF),
        config(512_000_000, 2**55 - 1),
        config(999_999_999, 2**32 - 1),
        config(1_000_000_000, 2**63 - 1),
        config(3_300_000_000, 2**32 - 1),
        config(10_000_000_000, 2**64 - 1),
        Device(1, 0, 2**63 - 1),
        Device(1, 0, 2**32 - 1),
        Device(16, 12, 2**63 - 1),
        Device(1, 32, 2**16),
        Device(U32_MAX, 32, 2**32 - 1),
        Device(U32_MAX, 0, 2**32 - 1),
        Device(2**31, 31, 2**32 - 1),
        Device(2**31 - 1, 31, 2**32 - 1),
    ]


def steered(raw: int, ppm: int) -> Rate:
    """Return the rate of a clock that is made faster by so many parts per million."""
    return Rate((raw * (1_000_000 + ppm) + 500_000) // 1_000_000, raw)


def rates() -> list[Rate]:
    """Of a timebase, a TSC, and jiffies; the last two are more than anybody may steer."""
    timebase, tsc, jiffies = 32_768_000, 3_495_253, 2_560_000_000
    return [
        steered(timebase, 0),
        steered(timebase, 500),
        steered(timebase, -500),
        Rate(tsc + 1, tsc),
        Rate(tsc - 1, tsc),
        steered(tsc, 37),
        steered(jiffies, 110_000),
        steered(jiffies, -110_000),
        steered(jiffies, 160_000),
        steered(jiffies, -160_000),
    ]


def intervals(device: Device, draw: random.Random) -> list[int]:
    """Of any length, as likely short as long, and the longest."""
    any_length = int(LEAST_NS * (device.max_ns / LEAST_NS) ** draw.random())
    return [min(any_length, device.max_ns), device.max_ns]


def rows() -> Iterator[str]:
    """Return the rate vectors."""
    draw = random.Random(SEED)  # noqa: S311 - nothing to guess
    for device in devices():
        for number, rate in enumerate(rates()):
            any_length, longest = intervals(device, draw)
            ns = any_length if number % 3 else longest
            adjusted_to = adjusted(device, rate)
            yield row(
                [device.mult, device.shift, rate.mono, rate.raw, adjusted_to.mult, adjusted_to.shift],
                [ns, adjusted_to.ticks(ns)],
            )


def limit_rows() -> Iterator[str]:
    """Return the limit vectors."""
    for device in devices():
        for ticks in sorted({1, 2, 0xF, 0x300, device.max_ticks // 3, device.max_ticks}):
            least, most = (limit_ns(device, ticks, is_max=is_max) for is_max in (False, True))
            yield row([device.mult, device.shift], [ticks, least, most])


def row(numbers: list[int], wide: list[int]) -> str:
    """One initializer, in two lines if it has to be."""
    first, second = ", ".join(str(number) for number in numbers), ", ".join(f"{number:#x}" for number in wide)
    gap = " " if len(first) + len(second) < WIDTH else "\n\t  "
    return f"\t{{ {first},{gap}{second} }},\n"


def table() -> str:
    """Return the whole file."""
    return HEADER + "".join(rows()) + BETWEEN + "".join(limit_rows()) + FOOTER


if __name__ == "__main__":
    sys.stdout.write(table())
