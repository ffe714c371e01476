"""The boot is the unit: hand-made cases, properties, and seeded simulations of whole comparisons.

`pytest -m slow tests/hotplug_common/test_boots.py` runs the long simulations, and -s prints their figures.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from hotplug_common import boots, stats

WITHIN = 0.05
RATIOS = (0.5, 1.0, 2.0)
CALLED = (stats.FASTER, stats.SLOWER)
Sample = dict[str, list[float]]
SECONDS = st.lists(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=5), min_size=1, max_size=5)


def made(rng: np.random.Generator, number: int, ratio: float, *, name: str = "", **more: float) -> Sample:
    """Boots of five iterations around one second; RATIO is the spread of boots to that within them."""
    noise, decrease = more.get("noise", 1.0), more.get("decrease", 0.0)
    boot = ratio * WITHIN * more.get("boot_noise", 1.0)
    return {
        f"{name}{at}": np.exp(
            math.log1p(-decrease) + rng.normal(0, boot) + rng.normal(0, noise * WITHIN, 5)
        ).tolist()
        for at in range(number)
    }


def named(prefix: str, seconds: Sequence[list[float]]) -> Sample:
    return {f"{prefix}{at}": one for at, one in enumerate(seconds)}


def only(baseline: Sample, variant: Sample) -> boots.Effect:
    (effect,) = boots.compare_all(baseline, [variant])
    return effect


def test_boots_that_differ_are_no_difference_however_many_iterations() -> None:
    """One slow boot of four: a test that takes iterations as independent calls this slower."""
    noise = np.linspace(-0.01, 0.01, 50)
    base = named("a", [(1 + noise).tolist(), (1.1 + noise).tolist()])
    other = named("b", [(1.1 + noise).tolist(), (1.2 + noise).tolist()])
    pooled = stats.compare(*(np.ravel(list(side.values())).tolist() for side in (base, other)))
    assert (pooled.verdict, pooled.p_value < 1e-9) == (stats.SLOWER, True)
    assert only(base, other).verdict == stats.NO_DIFFERENCE


def test_welch_on_the_medians_of_boots_as_scipy_has_it() -> None:
    base = named("a", [[1.0, 1.0, 1.0], [1.2, 1.2, 1.2], [1.1, 1.1, 1.1]])
    other = named("b", [[0.5, 0.5, 0.5], [0.6, 0.6, 0.6]])
    effect = only(base, other)
    reference = scipy.stats.ttest_ind(np.log([0.5, 0.6]), np.log([1.0, 1.2, 1.1]), equal_var=False)
    low, high = reference.confidence_interval()
    assert effect.p_value == pytest.approx(reference.pvalue)
    assert effect.interval_percent is not None
    assert effect.interval_percent.low == pytest.approx(100 * (1 - math.exp(high)))
    assert effect.interval_percent.high == pytest.approx(100 * (1 - math.exp(low)))
    assert (effect.interval_percent.method, effect.paired) == ("Welch t, boots", False)
    assert (effect.boots, effect.boots_baseline) == (2, 3)


def test_boots_agree_no_better_than_their_iterations_let_them() -> None:
    """Two boots of the same median by chance: the spread within them is the floor."""
    wide = [0.8, 1.0, 1.25]
    alike = named("a", [wide, wide]), named("b", [[one * 1.05 for one in wide]] * 2)
    effect = only(*alike)
    assert effect.verdict == stats.NO_DIFFERENCE
    made_of = boots.estimate(*(list(side.values()) for side in alike))
    variance = float(np.log([0.8, 1.25]).var(ddof=1)) / 2 * 2
    within = (np.log(wide) - np.log(wide).mean()) @ (np.log(wide) - np.log(wide).mean()) / 2
    assert made_of.error == pytest.approx(math.sqrt(2 * within * math.pi / 2 / 3 / 2))
    assert made_of.error**2 < variance
    assert only(named("a", [[1.0, 1.0]] * 2), named("b", [[1.05, 1.05]] * 2)).verdict == stats.SLOWER


def test_one_boot_a_side_is_no_verdict_but_what_boots_would_have_to_do() -> None:
    effect = only({"a": [1.3] * 50}, {"b": [0.1] * 50})
    assert effect.verdict == "one boot a side"
    assert (effect.p_value, effect.interval_percent, effect.smallest_effect_percent) == (None, None, None)
    # Thirteen times: 0.36 of its logarithm.
    assert effect.holds_below_boot_sd_percent == pytest.approx(100 * 0.36 * math.log(13), rel=0.01)
    assert only({"a": [1.3], "c": [1.31]}, {"b": [0.1]}).verdict == "one boot a side"


def test_the_spread_that_explains_one_boot_a_side_does_so_in_one_of_twenty() -> None:
    rng = np.random.default_rng(10)
    ratio = 2.0
    sd = boots.ONE_BOOT_SHARE * math.log(ratio)
    differences = np.diff(rng.normal(0, sd, (100_000, 2)))
    assert (np.abs(differences) > math.log(ratio)).mean() == pytest.approx(stats.ALPHA, abs=0.003)


def test_variants_in_the_same_boots_are_compared_boot_by_boot() -> None:
    """Boots differ by a factor of three, and the variant takes 4 to 6% off each."""
    levels, share = (1.0, 3.0, 2.0, 0.9), (0.95, 0.96, 0.94, 0.95)
    stock = named("boot", [[level, level * 1.001] for level in levels])
    expedited = named(
        "boot", [[level * one, level * one * 1.001] for level, one in zip(levels, share, strict=True)]
    )
    effect = only(stock, expedited)
    assert (effect.verdict, effect.paired, effect.boots) == (stats.FASTER, True, 4)
    assert effect.interval_percent is not None
    assert 3.5 < effect.interval_percent.low < effect.interval_percent.high < 6.5
    assert effect.p_permutation == pytest.approx(2 / 2**4)
    assert not effect.disagrees
    elsewhere = {f"other {name}": seconds for name, seconds in expedited.items()}
    assert only(stock, elsewhere).verdict == stats.NO_DIFFERENCE


def test_only_shared_boots_make_pairs() -> None:
    stock = named("boot", [[1.0, 1.01], [2.0, 2.02], [30.0, 30.1]])
    effect = only(stock, named("boot", [[0.5, 0.505], [1.0, 1.01]]))
    assert (effect.verdict, effect.boots, effect.boots_baseline) == (stats.FASTER, 2, 2)


def test_within_one_shared_boot_the_verdict_says_so() -> None:
    slow, fast = [2.0, 2.1, 2.2, 2.3], [1.0, 1.1, 1.2, 1.3]
    effect = only({"boot": slow}, {"boot": fast})
    assert (effect.verdict, effect.test, effect.paired) == ("faster within this boot", stats.EXACT, True)
    assert effect.p_value == pytest.approx(2 / 70)
    assert only({"boot": fast}, {"boot": slow}).verdict == "slower within this boot"
    assert only({"boot": slow[:3]}, {"boot": fast[:3]}).verdict == stats.TOO_FEW
    assert boots.compare_all({"boot": slow}, [{"boot": fast}] * 2)[0].verdict == stats.TOO_FEW


def test_from_four_boots_an_exact_permutation_stands_beside() -> None:
    base, other = named("a", [[1.0], [1.1], [1.2], [1.05]]), named("b", [[0.5], [0.55], [0.6], [0.52]])
    assert only(base, other).p_permutation == pytest.approx(2 / 70)
    three = dict(list(other.items())[:3])
    assert only(base, three).p_permutation is None


def test_a_t_test_and_a_permutation_that_disagree_are_told() -> None:
    """All boots of one side below all of the other, and one of them far out: the t test sees only noise."""
    base = named("a", [[1.0], [1.01], [1.02], [1.03]])
    far = named("b", [[1.1], [1.11], [1.12], [9.0]])
    effect = only(base, far)
    assert effect.p_value is not None
    assert effect.p_value > stats.ALPHA
    assert effect.p_permutation == pytest.approx(2 / 70)
    assert effect.disagrees


#: Eighths, so that equal differences are equal in floating point, too.
VALUES = st.integers(-20, 20).map(lambda number: number / 8)


@given(
    st.lists(VALUES, min_size=4, max_size=5),
    st.lists(VALUES, min_size=5, max_size=5),
    st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_the_permutation_is_that_of_scipy(first: list[float], second: list[float], paired: bool) -> None:
    one, other = np.array(first), np.array(second[: len(first)] if paired else second)

    def difference(x: stats.Floats, y: stats.Floats, axis: int = -1) -> stats.Floats:
        return np.asarray(x.mean(axis=axis) - y.mean(axis=axis))

    reference = scipy.stats.permutation_test(
        (other, one), difference, permutation_type="samples" if paired else "independent", n_resamples=np.inf
    )
    assert boots.permutation_p(one, other, paired) == pytest.approx(reference.pvalue)


@pytest.mark.slow
@pytest.mark.parametrize("name", "ab")
def test_a_thousand_boots_and_more_have_an_answer(name: str) -> None:
    one = {f"a{at}": [1.0 + at % 7 / 100] for at in range(1100)}
    other = {f"{name}{at}": [0.9 + at % 5 / 100] for at in range(1100)}
    assert (only(one, other).verdict, only(one, other).p_permutation) == (stats.FASTER, None)
    fewer = dict(list(other.items())[:900]), dict(list(one.items())[:900])
    assert only(fewer[1], fewer[0]).p_permutation == pytest.approx(2 / 2001)


def test_many_boots_are_dealt_by_a_seed() -> None:
    rng = np.random.default_rng(2)
    base, other = made(rng, 12, 1.0, name="a"), made(rng, 12, 1.0, name="b", decrease=0.3)
    first = only(base, other)
    assert first == only(base, other)
    assert first.p_permutation is not None
    assert first.p_permutation < 0.001


def test_holm_holds_for_boots() -> None:
    """With one variant p is 0.03; with three of them the same p is no verdict."""
    base, other = named("a", [[1.0], [1.06], [1.12]]), named("b", [[1.23], [1.18], [1.3]])
    alone = only(base, other)
    assert (alone.verdict, alone.p_value == alone.p_adjusted) == (stats.SLOWER, True)
    effects = boots.compare_all(base, [other, base | {"x": [1.0]}, named("c", [[1.0], [1.1], [1.05]])])
    assert effects[0].verdict == stats.NO_DIFFERENCE
    assert effects[0].p_value == alone.p_value
    assert effects[0].smallest_effect_percent > alone.smallest_effect_percent  # type: ignore[operator]


def test_spread_of_boots_and_within_them() -> None:
    found = boots.spread({"a": [1.0, math.exp(0.02)], "b": [math.exp(0.1), math.exp(0.12)], "c": [1.0]})
    assert (found.boots, found.iterations) == (3, (1, 2))
    assert found.boot_sd_percent == pytest.approx(100 * np.std([0.01, 0.11, 0.0], ddof=1))
    assert found.within_sd_percent == pytest.approx(100 * math.sqrt((0.0002 + 0.0002) / 2))
    assert boots.spread({"a": [1.0]}) == boots.Spread(1, (1, 1), None, None)


@given(SECONDS, SECONDS)
@settings(max_examples=100, deadline=None)
def test_every_number_is_finite_and_the_interval_holds_the_effect(
    first: list[list[float]], second: list[list[float]]
) -> None:
    for names in ("ab", "aa"):
        effect = only(named(names[0], first), named(names[1], second))
        assert math.isfinite(effect.median_decrease_percent)
        assert effect.p_value is None or 0 <= effect.p_value <= 1
        if effect.interval_percent is not None and min(effect.boots, effect.boots_baseline) > 1:
            low, high = effect.interval_percent.low, effect.interval_percent.high
            assert low <= effect.median_decrease_percent <= high <= 100
            assert effect.p_value is not None
            # The interval and p are of one test.
            assert (low <= 0 <= high) == (effect.p_value >= stats.ALPHA) or effect.p_value == pytest.approx(
                0.05
            )


@given(SECONDS, SECONDS, st.floats(0.01, 100))
@settings(max_examples=50, deadline=None)
def test_another_unit_changes_no_p_value(
    first: list[list[float]], second: list[list[float]], unit: float
) -> None:
    def scaled(seconds: list[list[float]]) -> list[list[float]]:
        return [[one * unit for one in boot] for boot in seconds]

    if min(len(first), len(second)) > 1:
        p_value = boots.estimate(first, second).p_value
        assert boots.estimate(scaled(first), scaled(second)).p_value == pytest.approx(
            p_value, rel=1e-3, abs=1e-9
        )
        assert boots.estimate(second, first).p_value == pytest.approx(p_value)


def test_an_outlier_is_one_of_its_own_boot() -> None:
    slow, fast = [2.0, 2.1, 1.9, 2.05, 2.02], [1.0, 1.05, 0.95, 1.02, 1.01]
    assert boots.outliers([slow, fast]) == []
    assert boots.outliers([slow, [*fast[:4], 2.0]]) == [(1, 4)]
    assert boots.outliers([]) == []


# Simulations: seeded, so that they give the same figures everywhere.


def figure(text: str) -> None:
    """Show a figure under `pytest -s`."""
    sys.stdout.write(f"\n{text}")


def share_called(seed: int, rounds: int, number: int, ratio: float, decrease: float = 0.0) -> float:
    """The share of comparisons of NUMBER boots a side that get a verdict."""
    rng = np.random.default_rng(seed)
    called = 0
    for _ in range(rounds):
        base = made(rng, number, ratio, name="a")
        called += only(base, made(rng, number, ratio, name="b", decrease=decrease)).verdict in CALLED
    return called / rounds


def coverage(seed: int, rounds: int, number: int, ratio: float, **noise: float) -> float:
    """The share of 95% intervals that hold the true difference, which is none."""
    rng = np.random.default_rng(seed)
    held = 0
    for _ in range(rounds):
        sides = made(rng, number, ratio), made(rng, number, ratio, **noise)
        low, high = boots.estimate(*(list(side.values()) for side in sides)).interval
        held += low <= 0 <= high
    return held / rounds


@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_where_nothing_differs_at_most_10_of_100_get_a_verdict(number: int, ratio: float) -> None:
    assert share_called(11, 100, number, ratio) <= 0.10


@pytest.mark.parametrize(("number", "found"), [(2, 19), (4, 20)])
def test_half_the_seconds_are_found(number: int, found: int) -> None:
    assert share_called(12, 20, number, 1.0, decrease=0.5) * 20 >= found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "ratio", "least"),
    [(2, 1.0, 0.99), (2, 1.5, 0.95), (2, 2.0, 0.84), (4, 1.0, 1), (4, 2.0, 1)],
)
def test_half_the_seconds_are_found_as_often_as_the_guide_has_it(
    number: int, ratio: float, least: float
) -> None:
    found = share_called(17, 400, number, ratio, decrease=0.5)
    figure(f"{number} boots, ratio {ratio}: {100 * found:.1f}% of halved seconds found")
    assert found >= least


@pytest.mark.parametrize("number", [2, 3, 4, 6])
def test_intervals_hold_the_truth(number: int) -> None:
    assert coverage(13, 200, number, 1.0) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 3, 4, 6])
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize(("noise", "boot_noise", "least"), [(1, 1, 0.93), (5, 1, 0.92), (5, 5, 0.92)])
def test_intervals_hold_the_truth_in_every_cell(
    number: int, ratio: float, noise: int, boot_noise: int, least: float
) -> None:
    """The patched side may be NOISE times as noisy within boots, and its boots BOOT_NOISE times as unlike."""
    held = coverage(14, 2000, number, ratio, noise=noise, boot_noise=boot_noise)
    figure(f"{number} boots, ratio {ratio}, noise {noise}x, boots {boot_noise}x: {100 * held:.1f}% hold it")
    assert held >= least


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 3, 4, 6])
@pytest.mark.parametrize("ratio", RATIOS)
def test_verdicts_where_nothing_differs_are_one_in_twenty(number: int, ratio: float) -> None:
    """500 comparisons: three standard deviations above 5% are 7.9%."""
    called = share_called(15, 500, number, ratio)
    figure(f"{number} boots, ratio {ratio}: {100 * called:.1f}% called")
    assert called <= 0.079


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 3, 4, 6, 10, 16])
@pytest.mark.parametrize("paired", [False, True])
def test_the_smallest_effect_is_found_nine_times_of_ten(number: int, paired: bool) -> None:
    """Boots of one exact value each, so that the spread of boots is all there is; found in 88 to 96%."""
    rng = np.random.default_rng(16)
    effect = 0.05 * float(boots.smallest_effect(np.array([number]), paired=paired)[0])
    rounds, found = 2000, 0
    for _ in range(rounds):
        base = np.zeros(number) if paired else rng.normal(0, 0.05, number)
        other = rng.normal(-effect, 0.05, number)
        sides = [[[math.exp(one)] for one in side] for side in (base, other)]
        made_of = (boots.estimate_pairs if paired else boots.estimate)(*sides)
        found += made_of.p_value <= stats.ALPHA
    figure(f"{number} {'pairs' if paired else 'boots a side'}: {100 * found / rounds:.1f}% found")
    assert 0.88 <= found / rounds <= 0.96


@pytest.mark.slow
def test_iterations_taken_as_independent_are_called_in_a_quarter_of_cases() -> None:
    """What the boot as the unit is for: with two boots and with four, 500 comparisons each."""
    for number in (2, 4):
        rng = np.random.default_rng(17)
        called = 0
        for _ in range(500):
            sides = [np.ravel(list(made(rng, number, 1.0).values())) for _ in range(2)]
            called += stats.rank_test(*sides)[0] <= stats.ALPHA
        figure(f"{number} boots of iterations taken as independent: {100 * called / 500:.1f}% called")
        assert called / 500 > 0.2
