"""How often one of two players' answers is preferred, with lengths controlled for; float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key

Array = NDArray[np.float64]

DRAWS = 2000
"""Resamples of the scenarios."""

RIDGE = 0.01
"""The penalty on the slope: half of it times the slope squared is added to the summed loss."""

_AT_ONCE = 200
_ITERATIONS = 100


@dataclass(frozen=True)
class WinRate:
    """A share with its 95 % percentile interval over resampled scenarios."""

    value: float
    low: float
    high: float


def win_rates(verdicts: Sequence[float], differences: Sequence[float], key: Key) -> tuple[WinRate, WinRate]:
    """The win rate and the length-controlled win rate of the first of two players.

    Args:
        verdicts: of each scenario, 1 where the first's answer is better, 0 where the second's, 1/2 for a tie.
        differences: by how much the first's answer is longer.
        key: draws `DRAWS` resamples of scenarios. Both answers to a scenario stay together, so the intervals are
            paired, and they hold for other scenarios, not for other seeds of training.
    """
    won, longer = np.asarray(verdicts, np.float64), standardised(differences)
    once_each = np.ones((1, len(won)))
    rng = key.numpy()
    rates, controlled = [], []
    for start in range(0, DRAWS, _AT_ONCE):
        size = min(_AT_ONCE, DRAWS - start)
        counts = rng.multinomial(len(won), np.full(len(won), 1 / len(won)), size=size).astype(np.float64)
        rates.append(counts @ won / len(won))
        controlled.append(length_controlled(won, longer, counts))
    return (
        _rate(float(won.mean()), np.concatenate(rates)),
        _rate(float(length_controlled(won, longer, once_each)[0]), np.concatenate(controlled)),
    )


def _rate(value: float, drawn: Array) -> WinRate:
    known = drawn[np.isfinite(drawn)]
    if not math.isfinite(value) or not len(known):
        return WinRate(math.nan, math.nan, math.nan)
    low, high = np.quantile(known, [0.025, 0.975])
    return WinRate(value, float(low), float(high))


def standardised(differences: Sequence[float]) -> Array:
    """tanh(d / s), s the standard deviation of the differences; 0 where all are 0.

    It is 0 at no difference, whichever player's answers are longer on average.
    """
    lengths = np.asarray(differences, np.float64)
    spread = lengths.std() or np.abs(lengths).max()
    return np.tanh(lengths / spread) if spread > 0 else np.zeros_like(lengths)


def length_controlled(won: Array, longer: Array, counts: Array) -> Array:
    """The win rate had both players' answers the same length, `[D]`, for rows of counts of the scenarios `[D, n]`.

    A logistic regression of the verdict on the standardised difference, P(win) = sigmoid(a + b x), evaluated at x = 0:
    sigmoid(a). Ties are half a win and half a loss. It follows AlpacaEval 2 (Dubois et al., arXiv:2404.04475), whose
    model has besides a term for the difficulty of each instruction, fitted over many models and shared by all, and a
    penalty chosen by cross-validation. With two players alone there is nothing to fit difficulties from, so they are
    left out, and `RIDGE` is fixed: it keeps the slope finite where length tells every verdict. Other causes of length,
    such as answers that are longer because they are right, count as length too.

    Where all verdicts are alike that is the rate, unless one player's answers are all longer as well: then nothing
    tells winning from length, and it is NaN.
    """
    total = counts.sum(1)
    share = counts @ won / total
    a, b = np.zeros(len(counts)), np.zeros(len(counts))
    for _ in range(_ITERATIONS):
        p = 0.5 * (1 + np.tanh(0.5 * (a[:, None] + b[:, None] * longer)))
        error, curve = counts * (p - won), counts * p * (1 - p)
        ga, gb = error.sum(1), error @ longer + RIDGE * b
        haa, hab, hbb = curve.sum(1) + 1e-12, curve @ longer, curve @ longer**2 + RIDGE
        determinant = haa * hbb - hab**2
        # Of a step at most 1 in each number, since far from the minimum the curvature is no guide.
        da = np.clip((hbb * ga - hab * gb) / determinant, -1, 1)
        db = np.clip((haa * gb - hab * ga) / determinant, -1, 1)
        a, b = np.clip(a - da, -30, 30), b - db
        if np.maximum(np.abs(da), np.abs(db)).max() < 1e-12:
            break
    rate = 0.5 * (1 + np.tanh(0.5 * a))
    alike = (share == 0) | (share == 1)
    used = counts > 0
    one_sided = ~((used & (longer <= 0)).any(1) & (used & (longer >= 0)).any(1))
    return np.where(alike, np.where(one_sided, np.nan, share), rate)
