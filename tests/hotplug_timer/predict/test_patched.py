"""From costs to seconds: counts as the kept guests counted them, ranges by hand, and the marked states."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_timer.predict.command import marked_states
from hotplug_timer.predict.costs import Costs, hindering
from hotplug_timer.predict.patched import (
    SPREAD,
    STOCK_SPREAD,
    Events,
    Machine,
    Size,
    dying_alone,
    events_of,
    one_by_one,
    patched,
    stock,
)
from hotplug_timer.trace.states import SpentInState
from tests import ROOT

KEPT = sorted((ROOT / "docs/data/speed").glob("*.json"))
SERIES = sorted((ROOT / "kernel-patches/hotplug/6.12").glob("0*.patch"))
#: Places in the series that mark states, and the states: one place marks two.
MARKS, STATES = 66, 67
MARK = re.compile(r"\+\s+(?:cpuhp_allow_bulk_down\(|\.bulk_down\s+= true)")
OFF = Costs(
    direction="off",
    switched=8,
    seconds=16.0,
    expedited_seconds=8.0,
    grace_periods=17,
    grace=0.8,
    expedited=0.1,
    gather=0.19,
    turn=0.01,
    rebuild=0.05,
    park=0.03,
    death=0.02,
    each=0.004,
    crash=0.0,
    pieces=8.0,
    traced=8.0,
)
ON = replace(OFF, direction="on", gather=0.0, turn=0.0, park=0.0, death=0.0, crash=0.001)
DEDICATED = Machine()
LPAR = Size(1920, 1680, 64)


def kept_figures() -> list[Any]:
    found = []
    for path in KEPT:
        run = json.loads(path.read_text())
        size = Size(run["cores"] * run["threads"], run["cores"] * (run["threads"] - 1), 64)
        for figure in run["figures"]:
            if (figure["kernel"], figure["mode"]) == ("patched", "plain"):
                found.append(pytest.param(size, run["chunks"], figure, id=f"{path.stem}-{figure['to']}"))
    return found


@pytest.mark.parametrize(("size", "chunks", "figure"), kept_figures())
def test_counts_are_those_of_every_kept_guest(size: Size, chunks: int, figure: dict[str, Any]) -> None:
    events = events_of(figure["to"], size)
    assert size.chunks == chunks
    assert (events.rendezvous, events.rebuilds) == (figure["rendezvous"], figure["rebuilds"])
    # The lock's own grace period is not waited for where one that began for the last switch still runs.
    waits = {events.grace_periods, events.grace_periods - (figure["to"] == "on")}
    assert figure["grace_periods"] in waits


def test_there_are_kept_guests_of_many_sizes_whose_lock_waits() -> None:
    figures = [param.values for param in kept_figures()]
    assert len(figures) >= 20
    assert {size.cpus for size, _, _ in figures} >= {16, 64, 128, 256, 512}
    exact = sum(events_of(one["to"], size).grace_periods == one["grace_periods"] for size, _, one in figures)
    assert exact >= len(figures) - 1


def test_counts_of_a_large_lpar() -> None:
    assert events_of("off", LPAR) == Events(28, 27, 27)
    assert events_of("on", LPAR) == Events(1, 0, 27)


def test_a_range_by_hand() -> None:
    middle = 28 * 0.1 + 27 * 0.05 + 27 * (0.19 + 0.03 + 0.02) + 1680 * (0.01 + 0.004)
    found = patched(OFF, LPAR, DEDICATED)
    assert (found.low, found.high) == pytest.approx((middle / SPREAD, middle * SPREAD))
    alone = dying_alone(OFF, LPAR, DEDICATED)
    assert alone.high - found.high == pytest.approx((1680 - 27) * 0.02 * SPREAD)


def test_waiting_cpus_that_cede_shorten_the_turns_of_others() -> None:
    less = patched(OFF, LPAR, DEDICATED).high - patched(OFF, LPAR, Machine(ceded=16.0)).high
    assert less == pytest.approx(1680 * OFF.turn * (1 - 1 / 16) * SPREAD)


def test_interrupts_under_way_arrive_once_in_a_rendezvous() -> None:
    less = patched(OFF, LPAR, DEDICATED).high - patched(OFF, LPAR, Machine(arrival=0.001)).high
    assert less == pytest.approx((1680 - 27) * 0.001 * SPREAD)
    # A turn that is shorter than the wait has none.
    short = replace(OFF, turn=0.0002)
    less = patched(short, LPAR, DEDICATED).high - patched(short, LPAR, Machine(arrival=0.001)).high
    assert less == pytest.approx((1680 - 27) * 0.0002 * SPREAD)


def test_a_range_by_hand_for_the_way_up() -> None:
    middle = 0.1 + 27 * 0.05 + 1680 * 0.003
    found = patched(ON, LPAR, DEDICATED)
    assert (found.low, found.high) == pytest.approx((middle / SPREAD, middle * SPREAD))


def test_the_stock_kernel_and_one_by_one_go_with_the_cpus() -> None:
    assert stock(OFF, LPAR).high == pytest.approx(1680 * 2.0 * STOCK_SPREAD)
    assert one_by_one(OFF, LPAR).high == pytest.approx(1680 * 1.0 * STOCK_SPREAD)
    assert stock(OFF, LPAR).low == pytest.approx(LPAR.share * 1680 * 2.0 / STOCK_SPREAD)


SECONDS = st.floats(0, 100)


@st.composite
def costs(draw: st.DrawFn) -> Costs:
    each = draw(SECONDS)
    parts = ("seconds", "expedited_seconds", "expedited", "gather", "turn", "rebuild", "park", "death")
    return replace(
        draw(st.sampled_from([OFF, ON])),
        **{name: draw(SECONDS) for name in parts},
        each=each,
        crash=draw(st.floats(0, each)),
    )


MACHINES = st.builds(Machine, ceded=st.floats(1, 1e4), arrival=st.floats(0, 1))


@given(costs(), MACHINES, st.integers(2, 4096), st.integers(1, 4095), st.integers(1, 512))
def test_no_range_is_upside_down(one: Costs, machine: Machine, cpus: int, toggled: int, chunk: int) -> None:
    size = Size(cpus, min(toggled, cpus - 1), chunk)
    both = patched(one, size, machine), dying_alone(one, size, machine)
    for found in (stock(one, size), one_by_one(one, size), *both):
        assert 0 <= found.low <= found.high
    assert both[1].high >= both[0].high


def spent(*states: tuple[int, str]) -> dict[tuple[int, str], SpentInState]:
    return {state: SpentInState(times=1) for state in states}


def test_states_that_are_not_marked_are_named_as_the_kernel_names_them() -> None:
    ran = spent(
        (233, "cpuhp_kick_ap_work"),
        (230, "sched_cpu_deactivate"),
        (201, "vendor_cpu_down"),
        (200, "rcutree_offline_cpu"),
        (190, "no_name_for_it"),
        (87, "takedown_cpu"),
        (41, "slub_cpu_dead"),
    )
    names = {230: "sched:active", 201: "vendor/agent:online", 41: "slub:dead"}
    assert hindering(ran, names, marked_states()) == ("no_name_for_it", "vendor/agent:online")
    assert hindering(spent((230, "sched_cpu_deactivate"), (87, "takedown_cpu")), {}, marked_states()) == ()


def test_a_state_is_marked_by_its_name_or_its_callback() -> None:
    assert hindering(spent((5, "another")), {5: "mm/vmstat:online"}, marked_states()) == ()
    assert hindering(spent((5, "vmstat_cpu_down_prep")), {5: "another"}, marked_states()) == ()


def test_the_list_has_every_state_that_the_series_marks() -> None:
    """A patch that marks one more makes `lpar-lab check-apply --format json` list one more."""
    lines = (ROOT / "tools/hotplug-timer/hotplug_timer/data/marked-states.csv").read_text().splitlines()
    assert lines[0] == "name,teardown"
    assert len(set(lines[1:])) == len(lines[1:]) == STATES
    assert sum(len(MARK.findall(_sources(path))) for path in SERIES) == MARKS


def _sources(patch: Path) -> str:
    """Return a patch's hunks of C files."""
    parts = re.split(r"^diff --git ", patch.read_text(), flags=re.MULTILINE)[1:]
    return "".join(part for part in parts if part.partition("\n")[0].endswith(".c"))
