"""The judge of timers under a steered clock: shown to fail for what can be wrong."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotplug_common.kernel.series import PATCHED, STOCK, VARIANTS
from kernel_qualify import keeping
from kernel_qualify.judge import earlysleeps
from kernel_qualify.judge.earlysleeps import Cost, Run


def records(
    worst: float, *, ppm: float = -500.0, seconds: float = 4.0, **changes: Any
) -> list[dict[str, Any]]:
    """Two rounds of one sleep, the first of which is off by nothing."""
    facts = {"kind": "sleep", "ppm": ppm, "seconds": seconds, "interrupts": 2, "early": 0, "late_us": 10.0}
    facts |= changes
    return [facts | {"worst_ppm": 0.0}, facts | {"worst_ppm": worst}, facts | {"worst_ppm": None}]


def empty() -> tuple[Cost, ...]:
    """The profile takes 100 instructions of its own."""
    return tuple(Cost(kernel, earlysleeps.NOTHING, 5, 500) for kernel in VARIANTS)


def run(before: float, after: float, early: int = 0, **changes: Any) -> Run:
    """Both kernels, each with one sleep."""
    stock = earlysleeps.sleeps(STOCK, records(before, **changes))
    patched = earlysleeps.sleeps(PATCHED, records(after, early=early, **changes))
    costs = (*empty(), Cost(STOCK, "f", 10, 3000), Cost(PATCHED, "f", 10, 2500), Cost(PATCHED, "g", 1, 1))
    suspended = {kernel: {"core": True} for kernel in VARIANTS}
    return Run("6.12", "ppc64le", "decrementer", {}, (*stock, *patched), costs, suspended)


def early_on_both() -> Run:
    """An early interrupt in each sleep, on stock and patched."""
    found = run(-500, 0)
    return replace(found, sleeps=tuple(replace(sleep, early=(1, 1)) for sleep in found.sleeps))


def lapic(found: Run) -> Run:
    """The same with a timer whose rate is measured at boot."""
    return replace(found, device="lapic")


@pytest.mark.parametrize(
    "found",
    [run(-500, -0.9), lapic(early_on_both())],
)
def test_what_follows_the_clock_is_well(found: Run) -> None:
    assert earlysleeps.problems(found) == []


def test_a_sleep_of_which_nothing_was_seen_does_not_count() -> None:
    (sleep,) = earlysleeps.sleeps(STOCK, records(3))
    assert (sleep.off_ppm, sleep.worst) == ((0.0, 3), 3)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (run(-500, -1.5), "4 s at -500 ppm: -1.5 ppm off, not 1 at most"),
        (run(-5, 0.5), "the stock kernel follows the clock as well, or the measurement does not see it"),
        (run(-500, 0, early=1), "4 s at -500 ppm: 2 early interrupts, 0 on stock"),
        (lapic(run(-500, 0, early=1)), "4 s at -500 ppm: 2 early interrupts, 0 on stock"),
        (run(-500, 0, seconds=0.1), "no long sleep was seen programmed in both kernels"),
        (run(-500, 0, ppm=100.0), "no long sleep was seen programmed in both kernels"),
    ],
)
def test_what_is_wrong_is_told(found: Run, problem: str) -> None:
    assert earlysleeps.problems(found) == [problem]


@pytest.mark.parametrize(
    ("facts", "well"),
    [({"possible": False}, {}), ({"possible": True, "went_well": True}, {"deep": True})],
)
def test_whether_it_suspended(facts: dict[str, bool], well: dict[str, bool]) -> None:
    assert earlysleeps.suspended([{"kind": "suspend", "depth": "deep", **facts}]) == well


def test_a_suspend_that_failed_is_told() -> None:
    depths = {STOCK: {"deep": True, "s2idle": True}, PATCHED: {"deep": True, "s2idle": False}}
    found = replace(run(-500, 0), arch="x86_64", suspended=depths)
    assert earlysleeps.problems(found) == ["patched: did not suspend (s2idle)"]


def test_a_suspend_that_was_not_tried_where_it_can_be_had_is_told() -> None:
    found = replace(run(-500, 0), arch="x86_64", suspended={STOCK: {"deep": True}, PATCHED: {}})
    assert earlysleeps.problems(found) == [
        "stock: did not suspend (s2idle)",
        "patched: did not suspend (deep)",
        "patched: did not suspend (s2idle)",
    ]


def test_guests_whose_timers_differ_are_not_compared() -> None:
    found = replace(early_on_both(), rates={STOCK: 0.0625, PATCHED: 0.0625 * (1 + 251e-6)})
    (problem,) = earlysleeps.problems(found)
    assert "251 ppm apart, so when interrupts come was not judged" in problem
    assert (
        earlysleeps.problems(replace(run(-500, 0), rates={STOCK: 0.0625, PATCHED: 0.0625 * (1 + 249e-6)}))
        == []
    )


def test_the_rate_is_that_of_the_device() -> None:
    assert earlysleeps.rate([{"kind": "machine"}, {"kind": "device", "rate": 0.512}]) == 0.512


def late(*us: float) -> Run:
    """Sleeps that are so late on patched, and from 100 to 1000 us late on stock."""
    facts = {"kind": "sleep", "seconds": 4.0, "interrupts": 1, "early": 0, "worst_ppm": 0.0}
    stock = [facts | {"ppm": 0.0, "late_us": 100.0 * number} for number in range(1, 11)]
    patched = [facts | {"ppm": 500.0, "late_us": value} for value in us]
    steered = run(-500, 0, seconds=2.0)
    return replace(
        steered,
        sleeps=(
            *steered.sleeps,
            *earlysleeps.sleeps(STOCK, stock),
            *earlysleeps.sleeps(PATCHED, patched),
        ),
    )


def test_sleeps_that_are_later_than_on_stock_are_told() -> None:
    """By how much, and not how surely: there is one boot of each kernel."""
    (problem,) = earlysleeps.problems(late(1551, 1550, 1552))
    assert problem == "4 s: 1001 us later than on stock where the clock is not steered"
    assert not earlysleeps.problems(late(1549, 1550, 1550))
    assert not earlysleeps.problems(late(0.1))
    assert "| 4 s | 550 us (10) | 1650 us (3) | +201% | 40% |" in earlysleeps.table([late(1650, 1650, 1650)])


def coupled(*programmed: int) -> Run:
    """The coupled decrementer, with instructions of a call on stock and patched."""
    kernels = zip(VARIANTS, programmed, strict=False)
    costs = [Cost(kernel, earlysleeps.PROGRAM, 10, 10 * (count + 100)) for kernel, count in kernels]
    return replace(run(-500, 0), line="7.3", costs=(*empty(), *costs))


@pytest.mark.parametrize(
    ("found", "problems"),
    [
        (coupled(200, 160), []),
        (coupled(200, 161), ["161 instructions to program a coupled device, not 0.8 x 200"]),
        (
            coupled(200),
            [f"{earlysleeps.PROGRAM} and {earlysleeps.NOTHING} were not both called in both kernels"],
        ),
        (replace(coupled(200, 400), line="6.12"), []),
        (replace(coupled(200, 400), device="lapic"), []),
    ],
)
def test_what_it_takes_to_program_a_coupled_device(found: Run, problems: list[str]) -> None:
    assert earlysleeps.problems(found) == problems


def test_what_is_kept_is_what_was_measured(tmp_path: Path) -> None:
    keeping.save(run(-500, 0), tmp_path / "early.json")
    assert earlysleeps.load(tmp_path / "early.json") == run(-500, 0)


def test_the_tables_have_a_row_for_each_sleep_and_function() -> None:
    rows = earlysleeps.table([run(-500, 0.5)]).splitlines()
    cells = ["ppc64le decrementer", "4 s", "-500 ppm", "2", "-500 ppm", "+0.5 ppm"]
    cells += ["2", "2", "0 of 2", "0 of 2", "10 us", "10 us"]
    assert f"| {' | '.join(cells)} |" in rows
    assert "| ppc64le decrementer | `f` | 200 | 150 | 0.75 |" in rows
    assert not any("`g`" in row for row in rows)
