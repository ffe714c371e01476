"""Where a series of seconds changed its level: ruptures finds the places, an exact test confirms them.

A place is taken only where all three hold: the segmentation pays a high price for it, the two levels rank
differently beyond chance, and the step is large enough to matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import ruptures
from scipy import ndimage

from hotplug_common.stats import Floats, rank_test

#: With fewer points nothing is looked for.
MIN_POINTS = 10
#: Points between two changes, and after the last one, at least: fewer are not told from a few odd nights.
MIN_SEGMENT = 5
#: What a further change costs, in units of the noise's variance times the logarithm of the number of points.
#: 2 to 3 would be enough for independent normal noise; nights that resemble the one before ask for more.
PENALTY = 8.0
#: Level of the rank test, divided by the number of points: any of them could have been the place.
ALPHA = 0.01
#: Points further than this from those around them (in standard deviations of noise) are taken as this far.
CLIP = 3.0
#: A step smaller than this is not mentioned, however sure it is.
MIN_CHANGE_PERCENT = 3.0
#: Of a logarithm of seconds; a series without any noise at all still has one.
LEAST_NOISE = 1e-6
#: Points that the running median looks at.
WINDOW = 5
#: The median absolute deviation of normal noise, to its standard deviation.
MAD_TO_SD = 1.4826


@dataclass(frozen=True)
class Change:
    """A step between two levels, which are medians in seconds; `at` is the index of the first point after it.

    `percent` is above 0 where seconds grew. `p_value` is the rank test's, of the two levels.
    """

    at: int
    before_s: float
    after_s: float
    percent: float
    p_value: float


def changes(seconds: Sequence[float], min_change_percent: float = MIN_CHANGE_PERCENT) -> list[Change]:
    """Return the changes of level in positive seconds, in time order; none in fewer than `MIN_POINTS`."""
    values = np.asarray(seconds, np.float64)
    if len(values) < MIN_POINTS:
        return []
    edges = [0, *_places(np.log(values)), len(values)]
    found = []
    while len(edges) > 2:
        steps = [
            _step(values, before, at, after)
            for (before, at), (_, after) in zip(pairwise(edges), pairwise(edges[1:]), strict=False)
        ]
        wrong = [step for step in steps if not _is_sure(step, len(values), min_change_percent)]
        if not wrong:
            found = steps
            break
        # Levels on both sides of a place that is none are one level: judge the others anew.
        edges.remove(max(wrong, key=lambda step: step.p_value).at)
    return found


def _places(logs: Floats) -> list[int]:
    """Return where ruptures splits the series: least squares, with a price for each further place."""
    jumps = np.diff(logs)
    noise = MAD_TO_SD * float(np.median(np.abs(jumps - np.median(jumps)))) / np.sqrt(2)
    smooth = ndimage.median_filter(logs, WINDOW, mode="nearest")
    clipped = smooth + np.clip(logs - smooth, -CLIP * noise, CLIP * noise)
    signal = (clipped / max(noise, LEAST_NOISE)).reshape(-1, 1)
    search = ruptures.KernelCPD(kernel="linear", min_size=MIN_SEGMENT).fit(signal)
    return [int(at) for at in search.predict(pen=PENALTY * np.log(len(logs)))[:-1]]


def _step(values: Floats, begin: int, at: int, end: int) -> Change:
    before, after = values[begin:at], values[at:end]
    low, high = float(np.median(before)), float(np.median(after))
    return Change(at, low, high, 100 * (high / low - 1), rank_test(before, after)[0])


def _is_sure(step: Change, points: int, min_change_percent: float) -> bool:
    return step.p_value <= ALPHA / points and abs(step.percent) >= min_change_percent
