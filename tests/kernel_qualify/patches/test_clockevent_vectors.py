"""The vectors that the clock-event patches contain are those that the script computes, and they are right."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_qualify.patches import clockevent_vectors as vectors
from kernel_qualify.patches.clockevent_vectors import Device, Rate
from tests import ROOT

HEADER = "kernel/time/clockevents_vectors.h"
PPM = 1_000_000
#: Half a part of 31 digits.
FINEST = Fraction(1, 2**30)
KERNEL_PATCHES = sorted((ROOT / "kernel-patches").glob("clockevents/*/*-KUnit.patch"))

devices = st.builds(
    Device,
    mult=st.integers(1, vectors.U32_MAX),
    shift=st.integers(1, 32),
    max_ticks=st.integers(1, 2**63 - 1),
)
steered = st.builds(vectors.steered, raw=st.integers(2**21, 2**31), ppm=st.integers(-500, 500))


def added(patch: str, file: str) -> str:
    """The content of a file that a patch makes."""
    diff = patch.split(f"\n+++ b/{file}\n", 1)[1].split("\ndiff --git ", 1)[0]
    return "".join(f"{line[1:]}\n" for line in diff.splitlines() if line.startswith("+"))


def test_every_line_has_the_vectors() -> None:
    assert [path.parent.name for path in KERNEL_PATCHES] == ["6.12", "7.3"]


@pytest.mark.parametrize("path", KERNEL_PATCHES, ids=lambda path: path.parent.name)
def test_the_patch_has_what_the_script_writes(path: Path) -> None:
    assert added(path.read_text(), HEADER) == vectors.table()


def test_the_table_is_the_same_every_time() -> None:
    random.seed(1)
    first = vectors.table()
    random.seed(2)
    assert vectors.table() == first


def test_devices_are_from_1_hz_to_10_ghz() -> None:
    rates = [Fraction(device.mult, 1 << device.shift) for device in vectors.devices()]
    assert min(rates) < Fraction(1, 5 * 10**8)
    assert Fraction(10) in rates


def test_every_vector_fits_the_kernels_types() -> None:
    for device in vectors.devices():
        for rate in vectors.rates():
            adjusted = vectors.adjusted(device, rate)
            assert max(rate.mono, rate.raw, adjusted.mult) <= vectors.U32_MAX
            assert adjusted.ticks(device.max_ns) <= vectors.U64_MAX


def test_the_bound_is_reached_by_nothing_that_ntp_may_do() -> None:
    device = vectors.config(512_000_000, 0x7FFFFFFF)
    base = vectors.adjusted(device, Rate(1, 1)).mult
    for ppm in (-110_000, -500, 500, 110_000):
        assert abs(vectors.adjusted(device, vectors.steered(2**24, ppm)).mult - base) < base // 8
    assert vectors.adjusted(device, Rate(1, 2)).mult == base + base // 8
    assert vectors.adjusted(device, Rate(2, 1)).mult == base - base // 8


@given(devices, steered)
def test_a_steered_device_follows_the_clock(device: Device, rate: Rate) -> None:
    """To within half a part of the multiplier, and half of the driver's own where that loses a digit."""
    adjusted = vectors.adjusted(device, rate)
    is_at = Fraction(adjusted.mult, 1 << adjusted.shift)
    should = Fraction(device.mult, 1 << device.shift) * Fraction(rate.raw, rate.mono)
    assert abs(is_at / should - 1) <= 2 * FINEST


@given(devices)
def test_an_unsteered_device_is_as_its_driver_has_it(device: Device) -> None:
    adjusted = vectors.adjusted(device, Rate(2**24, 2**24))
    driver, core = Fraction(device.mult, 1 << device.shift), Fraction(adjusted.mult, 1 << adjusted.shift)
    assert core == driver or (device.mult >= 2**31 and 0 < core / driver - 1 <= FINEST)


@given(devices, st.integers(1, 2**63 - 1))
def test_limits_are_on_the_safe_side(device: Device, ticks: int) -> None:
    """Unless they are less than a microsecond, or more than 64 bits can say."""
    least = vectors.limit_ns(device, ticks, is_max=False)
    most = vectors.limit_ns(device, ticks, is_max=True)
    if ticks << device.shift >= vectors.U64_MAX - device.mult:
        return
    assert least * device.mult >> device.shift >= ticks
    assert most == vectors.LEAST_NS or most * device.mult >> device.shift <= ticks


@given(st.integers(1, 10**10), st.integers(1, 2**63 - 1))
def test_configured_devices_do_not_overflow(freq: int, max_ticks: int) -> None:
    device = vectors.config(freq, max_ticks)
    assert 0 < device.mult <= vectors.U32_MAX
    sec = max(max_ticks // freq, 1)
    assert min(sec, 600) * vectors.NSEC_PER_SEC * device.mult <= vectors.U64_MAX or sec > 600
