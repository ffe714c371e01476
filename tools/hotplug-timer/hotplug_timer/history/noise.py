"""How much nights differ where nothing has changed, and where ruptures cuts a series into levels.

A night that resembles the one before tells less than one that does not. So the noise is the long-run one:
what the mean of many nights varies by, times the root of their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

import numpy as np
import scipy

from hotplug_common.stats import Floats

#: Nights between two cuts, and after the last one, at least: fewer are not told from a few odd nights.
MIN_SEGMENT = 5
#: What a further cut costs, in units of the noise's variance times the logarithm of the number of nights. The
#: first cuts are only there to find the noise, which no step is to be part of. Both as simulated by
#: tests/hotplug_timer/history/test_power.py.
FIRST_PENALTY, PENALTY = 3.0, 4.5
#: A shorter series pays as one of so many nights: it knows less about its noise, and is asked as often.
LEAST_NIGHTS = 60
#: Nights further than this from those around them (in standard deviations) are taken as this far.
CLIP = 3.0
#: Of a logarithm of seconds; a series without any noise at all still has one.
LEAST_SD = 1e-6
#: Nights that the running median looks at.
WINDOW = 5
#: The median absolute deviation of normal noise, to its standard deviation.
MAD_TO_SD = 1.4826
#: Levels that were not found look like more correlation than this.
MAX_CORRELATION = 0.6


@dataclass(frozen=True)
class Noise:
    """Standard deviation of one night's log seconds, and the correlation of a night with the one before."""

    sd: float
    correlation: float

    @property
    def inflation(self) -> float:
        """Return how many times the variance of a mean is that of independent nights."""
        return (1 + self.correlation) / (1 - self.correlation)

    @property
    def long_run(self) -> float:
        """Return the standard deviation that independent nights would need for the same mean."""
        return self.sd * sqrt(self.inflation)


def split(logs: Floats) -> tuple[Noise, list[int]]:
    """Return the noise of log seconds in time order, and where least squares cuts them into levels."""
    jumps = np.diff(logs)
    rough = max(MAD_TO_SD * float(np.median(np.abs(jumps - np.median(jumps)))) / sqrt(2), LEAST_SD)
    smooth = scipy.ndimage.median_filter(logs, WINDOW, mode="nearest")
    clipped = smooth + np.clip(logs - smooth, -CLIP * rough, CLIP * rough)
    first = _cuts(clipped / rough, FIRST_PENALTY)
    noise = _of_residuals(_residuals(clipped, first), 1 + len(first))
    return noise, _cuts(clipped / noise.long_run, PENALTY)


def correlation(residuals: Floats) -> float:
    """Return the correlation of each with the one before, as far as it makes means less sure."""
    square = float(residuals @ residuals)
    found = float(residuals[1:] @ residuals[:-1]) / square if square else 0.0
    return min(max(found, 0.0), MAX_CORRELATION)


def _of_residuals(residuals: Floats, levels: int) -> Noise:
    sd = max(float(residuals.std(ddof=levels)), LEAST_SD)
    return Noise(sd, correlation(np.clip(residuals, -CLIP * sd, CLIP * sd)))


def _residuals(logs: Floats, places: Sequence[int]) -> Floats:
    levels = [logs[begin:end] for begin, end in pairwise((0, *places, len(logs)))]
    return np.concatenate([level - np.median(level) for level in levels])


def _cuts(signal: Floats, penalty: float) -> list[int]:
    import ruptures  # noqa: PLC0415  it takes a second, and most nights' commands need none of it

    search = ruptures.KernelCPD(kernel="linear", min_size=MIN_SEGMENT).fit(signal.reshape(-1, 1))
    return [int(at) for at in search.predict(pen=penalty * np.log(max(len(signal), LEAST_NIGHTS)))[:-1]]
