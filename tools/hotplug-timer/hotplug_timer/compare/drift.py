"""Whether seconds drift over a series: heat, caches, other load that comes or goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

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


def drifts(series: Sequence[Sequence[float]]) -> list[Drift | None]:
    """Return for each series of seconds, in time order, its drift; None where none is shown.

    Mann and Kendall's test for a trend, which asks for no distribution; its level is `FALSE_ALARMS`
    divided by the number of series that are long enough (Bonferroni). The size is Theil and Sen's slope.
    """
    arrays = [np.asarray(seconds, np.float64) for seconds in series]
    tested = sum(len(seconds) >= MIN_SAMPLES for seconds in arrays)
    return [_drift(seconds, FALSE_ALARMS / tested) if tested else None for seconds in arrays]


def _drift(seconds: NDArray[np.float64], level: float) -> Drift | None:
    if len(seconds) < MIN_SAMPLES or np.ptp(seconds) == 0:
        return None
    p_value = float(stats.kendalltau(np.arange(len(seconds)), seconds).pvalue)
    if p_value > level:
        return None
    parts = _medians(seconds)
    change = float(stats.theilslopes(parts).slope) * (len(parts) - 1)
    percent = 100 * change / float(np.median(seconds))
    return Drift(percent, p_value) if abs(percent) >= MIN_CHANGE_PERCENT else None


def _medians(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(seconds) <= MAX_PARTS:
        return seconds
    length = len(seconds) // MAX_PARTS
    medians: NDArray[np.float64] = np.median(seconds[: length * MAX_PARTS].reshape(MAX_PARTS, length), axis=1)
    return medians
