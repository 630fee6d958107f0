"""What few runs can say: interquartile means, stratified bootstrap intervals, probability of improvement.

Scores are arrays `[runs, tasks]` in float64; leading axes stand for resamples. As Agarwal et al. (arXiv:2108.13264) and
their library rliable, which the tests compare with: runs are resampled within each task, never across tasks, and
intervals are percentile intervals. Draws come from a `Key`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Statistic: TypeAlias = Callable[[Array], Array]

DRAWS = 5000
LEVEL = 0.95
POWER = 0.8


@dataclass(frozen=True)
class Estimate:
    """A value and its percentile interval."""

    value: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


# ---------------------------------------------------------------- of one method


def interquartile_mean(scores: Array) -> Array:
    """The mean of the middle half of all runs and tasks together, over the last two axes.

    Of n values the lowest and the highest floor(n/4) are left out, so with three values or fewer it is the mean.
    """
    values = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = values.shape[-1] // 4
    return np.asarray(values[..., cut : values.shape[-1] - cut].mean(-1), np.float64)


def resampled(key: Key, runs: int, tasks: int, draws: int = DRAWS) -> Indices:
    """Which run stands in each place of each resample, `[draws, runs, tasks]`: drawn anew within every task."""
    return key.numpy().integers(runs, size=(draws, runs, tasks), dtype=np.int64)


def resample(scores: Array, indices: Indices) -> Array:
    """The resamples `[draws, runs, tasks]` of scores `[runs, tasks]`."""
    return np.take_along_axis(scores[None], indices, axis=1)


def interval(values: Array, level: float = LEVEL) -> tuple[float, float]:
    """The percentile interval of a statistic's resampled values."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def estimate(scores: Array, key: Key, statistic: Statistic = interquartile_mean) -> Estimate:
    """A statistic of one method's scores with its stratified bootstrap interval."""
    values = statistic(resample(scores, resampled(key, *scores.shape)))
    return Estimate(float(statistic(scores)), *interval(values))


# ---------------------------------------------------------------- of two methods


def probability_of_improvement(x: Array, y: Array) -> Array:
    """P(a run of X beats a run of Y on the same task), ties counting half, averaged over tasks.

    Per task it is the Mann-Whitney U of `x [.., n, tasks]` against `y [.., m, tasks]` over n m.
    """
    left, right = x[..., :, None, :], y[..., None, :, :]
    wins = (left > right) + 0.5 * (left == right)
    return np.asarray(wins.mean(axis=(-3, -2, -1)), np.float64)


def improvement(x: Array, y: Array, key: Key) -> Estimate:
    """The probability of improvement of X over Y; both are resampled, independently of each other."""
    left = resample(x, resampled(key.derive("x"), *x.shape))
    right = resample(y, resampled(key.derive("y"), *y.shape))
    return Estimate(float(probability_of_improvement(x, y)), *interval(probability_of_improvement(left, right)))


def difference(x: Array, y: Array, key: Key, statistic: Statistic = interquartile_mean) -> Estimate:
    """How much larger a statistic is of X than of Y; both are resampled, independently of each other."""
    left = statistic(resample(x, resampled(key.derive("x"), *x.shape)))
    right = statistic(resample(y, resampled(key.derive("y"), *y.shape)))
    return Estimate(float(statistic(x) - statistic(y)), *interval(left - right))


def smallest_difference(x: Array, y: Array, level: float = LEVEL, power: float = POWER) -> float:
    """The smallest true difference of the two means that these runs would resolve; NaN with one run on each side.

    Resolved means that a two-sided t test at `1 - level` rejects "no difference" with probability `power`:

        delta = (t_nu((1 + level)/2) + t_nu(power)) * sqrt(v_x + v_y)
        v = 1/K^2 sum_k s_k^2 / n,    nu = K (n_x - 1) + K (n_y - 1)

    with s_k^2 the sample variance of the n runs on task k of K. The mean over tasks of the runs' means is compared;
    an interquartile mean resolves about as much where runs are spread normally, and more where they have outliers.
    """
    freedom = x.shape[1] * (len(x) - 1) + y.shape[1] * (len(y) - 1)
    if len(x) < 2 or len(y) < 2:
        return math.nan
    variance = sum(float(s.var(axis=0, ddof=1).sum()) / len(s) / s.shape[1] ** 2 for s in (x, y))
    quantiles = t_quantile((1 + level) / 2, freedom) + t_quantile(power, freedom)
    return quantiles * math.sqrt(variance)


def t_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t distribution with a whole number of degrees of freedom, for shares in [1/2, 1)."""
    low, high = 0.0, 1.0
    while t_distribution(high, freedom) < share:
        high *= 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_distribution(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def t_distribution(t: float, freedom: int) -> float:
    """P(T <= t), t >= 0, by the finite series in the angle theta = atan(t / sqrt(nu)).

    Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 26.7.3 and 26.7.4.
    """
    theta = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(theta)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    # Odd: cos + 2/3 cos^3 + (2 4)/(3 5) cos^5 + ..; even: 1 + 1/2 cos^2 + (1 3)/(2 4) cos^4 + ..
    for place in range(3 if odd else 2, freedom + 1, 2):
        total += term
        term *= cosine * cosine * (place - 1) / place
    within = 2 / math.pi * (theta + math.sin(theta) * total) if odd else math.sin(theta) * total
    return 0.5 + 0.5 * within


# ---------------------------------------------------------------- of one run


def area(points: Sequence[tuple[float, float]]) -> float:
    """The mean height of a curve over x in [0, 1]: straight between its points, level before and after them.

    `points` are (share of the budget, value) with rising x; what lies beyond 1 is cut off.
    """
    x, y = (np.array(column, np.float64) for column in zip(*points, strict=True))
    inside = x[(x > 0) & (x < 1)]
    at = np.concatenate([[0.0], inside, [1.0]])
    heights = np.interp(at, x, y)
    return float((np.diff(at) * (heights[1:] + heights[:-1])).sum() / 2)
