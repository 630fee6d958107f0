"""What a back-test can say: block bootstrap intervals, Sharpe ratios corrected for trials, and splits in time.

Returns are arrays `[T]` of equal periods, or `[T, K]` of K strategies in the same periods. Returns of neighbouring
periods depend on each other, so blocks of them are resampled, wrapped around the end (Politis and Romano 1992), and
strategies together, so that a difference keeps what they have in common. Draws come from a `Key`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from hocket.apps.studies.statistics import DRAWS, Array, Estimate, Indices, interval
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key

EULER = 0.5772156649015329
_NORMAL = NormalDist()


def sharpe(returns: Array) -> Array:
    """Mean over standard deviation (ddof 1) along the first axis, in a period.

    Raises:
        ConfigurationError: for returns that do not vary.
    """
    deviation = returns.std(0, ddof=1)
    if not np.all(deviation > 1e-12 * (1 + np.abs(returns).max())):
        raise ConfigurationError("returns that do not vary have no Sharpe ratio; drop the constant column")
    return np.asarray(returns.mean(0) / deviation, np.float64)


def block_length(periods: int) -> int:
    """The usual length of a block, `T^(1/3)` rounded up; of monthly or daily returns a few periods to weeks."""
    return max(1, math.ceil(math.cbrt(periods)))


def block_indices(key: Key, periods: int, block: int, draws: int = DRAWS) -> Indices:
    """Which period stands in each place of each resample, `[draws, periods]`: blocks from even starts, wrapped."""
    if not 1 <= block <= periods:
        raise ConfigurationError(f"a block of {block} periods does not fit in {periods}; choose 1 to {periods}")
    starts = key.numpy().integers(periods, size=(draws, math.ceil(periods / block)), dtype=np.int64)
    places = (starts[:, :, None] + np.arange(block)) % periods
    return np.asarray(places.reshape(draws, -1)[:, :periods], np.int64)


def sharpe_estimate(returns: Array, key: Key, *, block: int | None = None, draws: int = DRAWS) -> Estimate:
    """The Sharpe ratio of one strategy with a 95 % block bootstrap interval."""
    places = block_indices(key, len(returns), block or block_length(len(returns)), draws)
    return Estimate(float(sharpe(returns)), *interval(sharpe(returns[places].T)))


def sharpe_difference(x: Array, y: Array, key: Key, *, block: int | None = None, draws: int = DRAWS) -> Estimate:
    """How much larger the Sharpe ratio of x is than that of y in the same periods, both resampled together.

    Raises:
        ConfigurationError: for series of unequal length.
    """
    if len(x) != len(y):
        raise ConfigurationError(f"returns of {len(x)} and of {len(y)} periods cannot be compared; align them first")
    places = block_indices(key, len(x), block or block_length(len(x)), draws)
    resamples = sharpe(x[places].T) - sharpe(y[places].T)
    return Estimate(float(sharpe(x) - sharpe(y)), *interval(resamples))


def probabilistic_sharpe(returns: Array, benchmark: float = 0.0) -> float:
    """P(the true Sharpe ratio exceeds `benchmark`), by its asymptotic distribution (Bailey and Lopez de Prado 2012).

    `Phi( (S - b) sqrt(T - 1) / sqrt(1 - g3 S + (g4 - 1)/4 S^2) )`, g3 and g4 the skewness and the kurtosis.
    """
    ratio, centred = float(sharpe(returns)), returns - returns.mean()
    spread = float((centred**2).mean())
    skew, kurtosis = float((centred**3).mean()) / spread**1.5, float((centred**4).mean()) / spread**2
    variance = 1 - skew * ratio + (kurtosis - 1) / 4 * ratio * ratio
    return _NORMAL.cdf((ratio - benchmark) * math.sqrt(len(returns) - 1) / math.sqrt(variance))


def best_of_trials(ratios: Sequence[float]) -> float:
    """The Sharpe ratio to expect of the best of N trials without skill, whose ratios vary as these do.

    `sqrt(V) ((1 - g) Phi^-1(1 - 1/N) + g Phi^-1(1 - 1/(N e)))`, g Euler's constant; 0 of a single trial.
    """
    count = len(ratios)
    if count < 2:
        return 0.0
    quantiles = _NORMAL.inv_cdf(1 - 1 / count), _NORMAL.inv_cdf(1 - 1 / (count * math.e))
    return float(np.std(ratios, ddof=1)) * ((1 - EULER) * quantiles[0] + EULER * quantiles[1])


def deflated_sharpe(trials: Array, chosen: int) -> float:
    """P(strategy `chosen` of trials `[T, N]` has skill), given that it was picked among them (2014, by the same)."""
    return probabilistic_sharpe(trials[:, chosen], best_of_trials(sharpe(trials).tolist()))


def time_splits(periods: int, folds: int, gap: int = 0) -> list[tuple[range, range]]:
    """Periods to fit on and later ones to test on: all before a fold, less a `gap`, and the fold.

    The first of `folds + 1` equal parts is never tested on.

    Raises:
        ConfigurationError: where a fold or what is before it would be empty.
    """
    size = periods // (folds + 1) if folds > 0 else 0
    if size < 1 or gap < 0 or gap >= size:
        raise ConfigurationError(
            f"{periods} periods cannot be split into {folds} folds with a gap of {gap}; take fewer, or a smaller gap"
        )
    starts = [periods - size * (folds - fold) for fold in range(folds)]
    return [(range(start - gap), range(start, start + size)) for start in starts]
