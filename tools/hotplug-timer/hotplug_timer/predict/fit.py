"""Fitting prices to timings, and the profile likelihood of a time on another machine.

For every combination of powers the prices are a non-negative least squares of relative errors. A fit is
judged by the logarithms of predicted over measured, and by how far its powers are from their defaults.
An interval holds every time on the other machine that some prices and powers can give without fitting
the measured ones too badly, so a split of the time that the data do not determine widens it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, stats

from hotplug_common.stats import CONFIDENCE, Floats, Interval
from hotplug_timer.predict.model import POWER_OF, TERMS, Work, design_row

#: How far off the model is taken to be, relative, before residuals say anything: as good as
#: PRIOR_ROWS residuals of that size.
PRIOR_ERROR = 0.2
PRIOR_ROWS = 4
#: Times on the other machine that are tried, between the least and the most there can be.
STEPS = 40
#: How closely a tried time is held to: its row's weight among relative errors.
HOLD = 100.0
#: A tried time that the best prices miss by more than this is out of reach.
REACH = 0.03
_TINY = 1e-12
_IMPOSSIBLE = 1e6
#: The least time tried is not below the most by more than this.
_WIDEST = 1e6
_METHOD = "profile likelihood"


@dataclass(frozen=True)
class Row:
    """One measured time in seconds, and the relative standard error its repetitions leave it."""

    work: Work
    seconds: float
    error: float = 0.0


@dataclass(frozen=True)
class Candidate:
    """One choice of powers: its prices in seconds, shape (kinds,), and what speaks against it."""

    powers: Mapping[str, float]
    matrix: Floats
    prices: Floats
    misfit: float
    penalty: float


@dataclass(frozen=True)
class Fit:
    """Prices and powers for a set of timings.

    `sigma` is the relative error of a single time, lack of fit included; `freedom` the degrees of
    freedom behind it; `rank` how many of the prices the timings tell apart.
    """

    rows: tuple[Row, ...]
    kinds: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    best: Candidate
    sigma: float
    freedom: int
    rank: int

    @property
    def limit(self) -> float:
        """Return how much worse than the best a fit may be, in squared standardised residuals."""
        quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, self.freedom))
        return quantile**2

    @property
    def ratios(self) -> Floats:
        """Return predicted over measured for each row under the best fit."""
        seconds = np.array([row.seconds for row in self.rows])
        ratios: Floats = self.best.matrix @ self.best.prices / seconds
        return ratios

    def cost(self, candidate: Candidate) -> float:
        """Return what speaks against a candidate, in squared standardised residuals."""
        return candidate.misfit / self.sigma**2 + candidate.penalty


@dataclass(frozen=True)
class Forecast:
    """A time in seconds with its interval, and the parts of it by kind of event in the best fit."""

    seconds: float
    interval: Interval
    parts: Mapping[str, float]


def fit(rows: Sequence[Row]) -> Fit:
    """Fit prices and powers to at least one row of positive seconds."""
    kinds = tuple(kind for kind in TERMS if any(kind in row.work.kinds for row in rows))
    seconds = np.array([row.seconds for row in rows])
    weights = _weights(rows)
    names = list(dict.fromkeys(POWER_OF[kind] for kind in kinds))
    candidates = []
    for choice in itertools.product(*(TERMS[name].tried for name in names)):
        powers = dict(zip(names, choice, strict=True))
        matrix = np.array([design_row(row.work, kinds, powers) for row in rows])
        prices, _ = optimize.nnls(matrix / seconds[:, None] * weights[:, None], weights)
        penalty = sum(TERMS[name].penalty(power) for name, power in powers.items())
        misfit = float(_misfit(matrix @ prices, seconds, weights))
        candidates.append(Candidate(powers, matrix, prices, misfit, penalty))
    best = min(candidates, key=lambda c: c.misfit / PRIOR_ERROR**2 + c.penalty)
    rank = int(np.linalg.matrix_rank(best.matrix / seconds[:, None]))
    freedom = PRIOR_ROWS + max(0, len(rows) - rank)
    sigma = float(np.sqrt((PRIOR_ROWS * PRIOR_ERROR**2 + best.misfit) / freedom))
    whole = Fit(tuple(rows), kinds, tuple(candidates), best, sigma, freedom, rank)
    least = min(whole.cost(candidate) for candidate in candidates)
    kept = tuple(c for c in candidates if whole.cost(c) <= least + whole.limit)
    return replace(whole, candidates=kept)


def forecast(fitted: Fit, work: Work) -> Forecast:
    """Predict a switch; the kinds of event in `work` have to be among those fitted."""
    targets = [design_row(work, fitted.kinds, candidate.powers) for candidate in fitted.candidates]
    tried = _tried(fitted, targets)
    profile = _profile(fitted, targets, tried)
    # A single time scatters around the model as the measured ones do: the cheapest way to a time is
    # some time of the model and the rest of the way by scatter.
    log_tried = np.log(tried)
    reach = np.sqrt(fitted.limit) * fitted.sigma
    times = np.linspace(log_tried[0] - reach, log_tried[-1] + reach, 10 * STEPS)
    fine = np.linspace(log_tried[0], log_tried[-1], 10 * STEPS)
    smooth = np.interp(fine, log_tried, profile)
    cost = np.min(smooth[None, :] + ((times[:, None] - fine[None, :]) / fitted.sigma) ** 2, axis=1)
    cost -= cost.min()
    low, high = _crossings(times, cost, fitted.limit)
    likelihood = np.cumsum(np.exp(-cost / 2))
    middle = np.interp(likelihood[-1] / 2, likelihood, times)
    parts = design_row(work, fitted.kinds, fitted.best.powers) * fitted.best.prices
    return Forecast(
        float(np.exp(middle)),
        Interval(float(np.exp(low)), float(np.exp(high)), _METHOD),
        dict(zip(fitted.kinds, (float(part) for part in parts), strict=True)),
    )


def _crossings(times: Floats, cost: Floats, limit: float) -> tuple[float, float]:
    """Return where the cost first falls to the limit and where it last rises above it."""
    inside = np.flatnonzero(cost <= limit)
    first, last = int(inside[0]), int(inside[-1])
    low, high = float(times[first]), float(times[last])
    # Between two steps, so that what is printed does not jump by one.
    if first > 0:
        low = float(np.interp(-limit, -cost[first - 1 : first + 1], times[first - 1 : first + 1]))
    if last < len(times) - 1:
        high = float(np.interp(limit, cost[last : last + 2], times[last : last + 2]))
    return low, high


def _weights(rows: Sequence[Row]) -> Floats:
    """Return each row's weight: 1, or less where its repetitions leave it uncertain."""
    errors = np.array([row.error for row in rows])
    weights: Floats = 1 / np.sqrt(1 + (errors / PRIOR_ERROR) ** 2)
    return weights


def _misfit(fitted: Floats, seconds: Floats, weights: Floats) -> Floats:
    """Return how far fitted times, shape (..., rows), are from the measured ones, shape (...)."""
    logs = np.log(np.maximum(fitted, _TINY * seconds) / seconds)
    misfit: Floats = np.sum((weights * logs) ** 2, axis=-1)
    return misfit


def _tried(fitted: Fit, targets: Sequence[Floats]) -> Floats:
    """Return times, ascending, from the least to the most that acceptable prices can give."""
    seconds = np.array([row.seconds for row in fitted.rows])
    low, high = np.inf, 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for candidate, target in zip(fitted.candidates, targets, strict=True):
            # No price can exceed what would use up a measured time alone.
            dearest = np.min(
                np.where(candidate.matrix > 0, seconds[:, None] / candidate.matrix, np.inf), axis=0
            )
            high = max(high, float(np.sum(target * dearest)))
            # Nor can a measured time's own events cost less elsewhere than the one that grows least.
            ratio = np.where(candidate.matrix > 0, target / candidate.matrix, np.inf)
            low = min(low, float(np.max(seconds * np.min(ratio, axis=1))))
    reach = float(np.exp(np.sqrt(fitted.limit) * fitted.sigma))
    low = max(low, high / _WIDEST)
    return np.geomspace(low / reach, high * reach, STEPS)


def _profile(fitted: Fit, targets: Sequence[Floats], tried: Floats) -> Floats:
    """Return for each tried time the least cost of prices and powers that give it, shape (len(tried),)."""
    seconds = np.array([row.seconds for row in fitted.rows])
    weights = _weights(fitted.rows)
    wanted = np.append(weights, HOLD)
    costs = np.full(len(tried), _IMPOSSIBLE)
    for candidate, target in zip(fitted.candidates, targets, strict=True):
        system = np.vstack([candidate.matrix / seconds[:, None] * weights[:, None], target])
        prices = np.empty((len(tried), len(target)))
        for at, time in enumerate(tried):
            system[-1] = HOLD * target / time
            prices[at], _ = optimize.nnls(system, wanted)
        reached = np.abs(prices @ target / tried - 1) <= REACH
        misfit = _misfit(prices @ candidate.matrix.T, seconds, weights)
        cost = np.where(reached, misfit / fitted.sigma**2 + candidate.penalty, _IMPOSSIBLE)
        costs = np.minimum(costs, cost)
    return costs
