"""Prices found again, and intervals that are as wide as what is not known."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotplug_timer.predict.counts import Switch, assumed_work
from hotplug_timer.predict.fit import Row, fit, forecast
from hotplug_timer.predict.model import (
    CPU_OFF,
    EXPEDITED,
    GRACE,
    POWER_OF,
    REBUILD,
    RENDEZVOUS,
    TERMS,
    Work,
    design_row,
)

PRICES = {CPU_OFF: 0.01, GRACE: 0.05, EXPEDITED: 0.002, RENDEZVOUS: 0.01, REBUILD: 0.003}
DEFAULTS = {POWER_OF[name]: TERMS[name].default for name in TERMS}
STEEP = DEFAULTS | {RENDEZVOUS: 1.8, REBUILD: 2.0}


def work(cpus: int, variant: str) -> Work:
    toggled = cpus - cpus // 8
    chunks = math.ceil(toggled / 64)
    events = {
        "stock": {GRACE: 2 * toggled, RENDEZVOUS: toggled, REBUILD: toggled},
        "expedited": {EXPEDITED: 2 * toggled, RENDEZVOUS: toggled, REBUILD: toggled},
        "patched": {EXPEDITED: 2 * chunks, RENDEZVOUS: chunks, REBUILD: chunks},
    }[variant]
    return Work(cpus, {CPU_OFF: toggled, **events})


def true_seconds(
    what: Work, powers: Mapping[str, float] = DEFAULTS, prices: Mapping[str, float] = PRICES
) -> float:
    kinds = list(prices)
    return float(design_row(what, kinds, powers) @ np.array([prices[kind] for kind in kinds]))


def rows(sizes: tuple[int, ...], powers: Mapping[str, float] = DEFAULTS) -> list[Row]:
    return [
        Row(work(cpus, variant), true_seconds(work(cpus, variant), powers))
        for cpus in sizes
        for variant in ("stock", "expedited", "patched")
    ]


@pytest.mark.parametrize("variant", ["stock", "patched"])
def test_a_machine_is_predicted_from_smaller_ones(variant: str) -> None:
    fitted = fit(rows((16, 64, 256)))
    target = work(1920, variant)
    found = forecast(fitted, target)
    assert found.seconds == pytest.approx(true_seconds(target), rel=0.25)
    assert found.interval.low < true_seconds(target) < found.interval.high


def test_growth_that_is_not_the_default_is_found_where_sizes_tell() -> None:
    target = work(1920, "expedited")
    fitted = fit(rows((16, 64, 256, 1024), STEEP))
    assert fitted.best.powers[REBUILD] > DEFAULTS[REBUILD] or fitted.best.powers[RENDEZVOUS] > 1
    found = forecast(fitted, target)
    assert found.interval.low < true_seconds(target, STEEP) < found.interval.high
    assert found.seconds > 2 * true_seconds(target)


@pytest.mark.parametrize("powers", [DEFAULTS, STEEP], ids=["default", "steep"])
@pytest.mark.parametrize("variant", ["stock", "patched"])
def test_one_size_does_not_tell_growth_and_holds_any(variant: str, powers: Mapping[str, float]) -> None:
    target = work(1920, variant)
    found = forecast(fit(rows((64,), powers)), target)
    assert found.interval.low < true_seconds(target, powers) < found.interval.high
    assert found.interval.high > 10 * found.interval.low


def test_each_size_narrows_the_interval() -> None:
    target = work(1920, "stock")
    widths = [
        found.interval.high / found.interval.low
        for sizes in ((64,), (64, 256), (64, 256, 1024))
        if (found := forecast(fit(rows(sizes)), target))
    ]
    assert widths[0] > 2 * widths[1] > 2 * widths[2]


def test_a_bad_fit_widens_the_interval_and_shows() -> None:
    good = rows((64, 256, 1024))
    bad = [Row(row.work, row.seconds * (3 if at % 2 else 1 / 3)) for at, row in enumerate(good)]
    assert fit(bad).sigma > 2 * fit(good).sigma
    assert max(abs(np.log(fit(bad).ratios))) > math.log(1.5)
    assert max(abs(np.log(fit(good).ratios))) < math.log(1.1)


def test_what_cannot_be_told_apart_has_a_low_rank() -> None:
    alone = [Row(work(64, "stock"), 5.0)]
    assert (fit(alone).rank, len(fit(alone).kinds)) == (1, 4)
    assert fit(rows((16, 64, 256))).rank == 5


def test_scatter_lowers_a_weight() -> None:
    switch = assumed_work(Switch("off", 64, 56, 1), expedited=False)
    calm, wild = Row(switch, 1.0), Row(switch, 4.0, error=1.0)
    fitted = fit([calm, wild])
    assert fitted.ratios[0] < 1.5


def test_parts_add_up_and_no_price_is_negative() -> None:
    fitted = fit(rows((16, 64)))
    assert (fitted.best.prices >= 0).all()
    target = work(64, "stock")
    assert sum(forecast(fitted, target).parts.values()) == pytest.approx(true_seconds(target), rel=0.1)


@pytest.mark.slow
def test_intervals_hold_about_as_much_as_they_say() -> None:
    """Machines made up by the model's own assumptions: prices, powers and 20% by chance."""
    chance = np.random.default_rng(1920)
    variants, machines = ("stock", "expedited", "patched"), 20
    inside = []
    for _ in range(machines):
        powers = {
            name: float(np.clip(chance.normal(term.default, term.spread), term.tried[0], term.tried[-1]))
            for name, term in TERMS.items()
        }
        prices = {kind: price * math.exp(chance.normal()) for kind, price in PRICES.items()}
        seconds = {
            (cpus, variant): true_seconds(work(cpus, variant), powers, prices)
            * math.exp(chance.normal(0, 0.2))
            for cpus in (16, 64, 256, 512)
            for variant in variants
        }
        measured = [Row(work(*at), time) for at, time in seconds.items() if at[0] < 512]
        fitted = fit(measured)
        for variant in variants:
            interval = forecast(fitted, work(512, variant)).interval
            inside.append(interval.low <= seconds[512, variant] <= interval.high)
            assert interval.high < 30 * interval.low
    assert 0.88 * len(inside) <= sum(inside)


@settings(max_examples=8, deadline=None)
@given(st.floats(1e-3, 1e4), st.floats(1e-3, 1e4), st.floats(1e-3, 1e3))
def test_the_unit_of_time_does_not_matter(first: float, second: float, factor: float) -> None:
    def predicted(scale: float) -> tuple[float, float, float]:
        timings = [
            Row(assumed_work(Switch("on", cpus, cpus // 2, 1), expedited=False), seconds * scale)
            for cpus, seconds in ((16, first), (128, second))
        ]
        found = forecast(fit(timings), assumed_work(Switch("on", 512, 256, 1), expedited=False))
        assert 0 < found.interval.low < found.seconds < found.interval.high
        return found.interval.low, found.seconds, found.interval.high

    assert predicted(factor) == pytest.approx([value * factor for value in predicted(1.0)], rel=1e-3)
