"""Whether seconds drift within boots: heat, caches, other load that comes or goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

#: The chance of any warning at all in one comparison whose series do not drift, whatever their number.
FALSE_ALARMS = 0.05
#: Less than this from the first sample to the last changes no conclusion, however sure it is.
MIN_CHANGE_PERCENT = 1.0
#: With fewer samples no order of them is rare enough for several series (2 of 5! orders are 0.017).
MIN_SAMPLES = 6
#: The slope looks at every pair: longer series give it the medians of this many equal parts.
MAX_PARTS = 500


@dataclass(frozen=True)
class Drift:
    """A monotonic trend. `change_percent` is from the first sample to the last, against the median."""

    change_percent: float
    p_value: float


def drifts(series: Sequence[Sequence[Sequence[float]]]) -> list[Drift | None]:
    """Return for each series of boots, with seconds in time order, its drift; None where none is shown.

    Mann and Kendall's test for a trend within boots, which asks for no distribution and takes no difference
    between boots for a trend; its level is `FALSE_ALARMS` divided by the number of series that are long
    enough (Bonferroni). The size is Theil and Sen's slope, averaged over the boots.
    """
    arrays = [[np.asarray(boot, np.float64) for boot in boots] for boots in series]
    tested = sum(_samples(boots) >= MIN_SAMPLES for boots in arrays)
    return [_drift(boots, FALSE_ALARMS / tested) if tested else None for boots in arrays]


def _samples(boots: Sequence[NDArray[np.float64]]) -> int:
    return sum(map(len, boots))


def trend(boots: Sequence[NDArray[np.float64]], level: float, inflation: float = 1.0) -> Drift | None:
    """Return the trend within boots of positive seconds; None where its p-value is above LEVEL.

    INFLATION is how many times the variance of the score is that of independent samples.
    """
    scores, variances = zip(*map(_score, boots), strict=True)
    score, variance = abs(sum(scores)), inflation * sum(variances)
    if not variance:
        return None
    # Less one: the score has no values between even (or odd) numbers.
    p_value = float(2 * scipy.special.ndtr(-max(score - 1, 0) / np.sqrt(variance)))
    if p_value > level:
        return None
    return Drift(float(np.average([*map(_percent, boots)], weights=[*map(len, boots)])), p_value)


def _drift(boots: Sequence[NDArray[np.float64]], level: float) -> Drift | None:
    boots = [seconds for seconds in boots if len(seconds) > 1]
    if _samples(boots) < MIN_SAMPLES:
        return None
    found = trend(boots, level)
    return found if found and abs(found.change_percent) >= MIN_CHANGE_PERCENT else None


def _score(seconds: NDArray[np.float64]) -> tuple[float, float]:
    """Return how many more pairs rise than fall, and the variance of that without a trend."""
    if np.ptp(seconds) == 0:
        return 0.0, 0.0
    number, ties = len(seconds), np.unique(seconds, return_counts=True)[1].astype(np.float64)
    score = sum(np.sign(seconds[at + 1 :] - value).sum() for at, value in enumerate(seconds))
    spread = number * (number - 1) * (2 * number + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())
    return float(score), spread / 18


def _percent(seconds: NDArray[np.float64]) -> float:
    """Return the change from the first sample to the last, against the median."""
    parts = _medians(seconds)
    change = float(scipy.stats.theilslopes(parts).slope) * (len(parts) - 1)
    return 100 * change / float(np.median(seconds))


def _medians(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(seconds) <= MAX_PARTS:
        return seconds
    length = len(seconds) // MAX_PARTS
    medians: NDArray[np.float64] = np.median(seconds[: length * MAX_PARTS].reshape(MAX_PARTS, length), axis=1)
    return medians
