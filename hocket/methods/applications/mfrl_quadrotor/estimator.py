"""Whether a plan can be flown, by a Gaussian process that links cheap evaluations to dear ones.

    f_high(x) = rho f_low(x) + delta(x),   P(flies | x) = Phi(f_high(x)),

with f_low and delta Gaussian processes (Kennedy and O'Hagan 2000), and each evaluation a sign whose likelihood is
probit. The posterior is Laplace's approximation (Rasmussen and Williams 2006, algorithms 3.1 and 3.2). The authors'
code has a deep process on features of a network, fitted variationally; kernels and scales are chosen here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import log_ndtr, ndtr

Array = NDArray[np.float64]
Levels = NDArray[np.int64]

LOW, HIGH = 0, 1

ROUNDS, CLOSE = 50, 1e-8
"""At most so many steps of Newton's, until the objective gains less than this."""


@dataclass(frozen=True)
class Link:
    """The prior of both levels. The last `linear` features also enter linearly.

    Attributes:
        rho: how much of the low level is in the high one. swing: the deviation of f_low around its linear part.
        slope: the deviation of the slope of that part, per unit of a feature. change: the deviation of delta.
        reach: how far features differ, in units of their own, until values hardly correlate; `far` for delta.
    """

    rho: float = 1.0
    swing: float = 4.0
    slope: float = 4.0
    change: float = 1.0
    reach: float = 2.0
    far: float = 3.0
    linear: int = 3

    def __call__(self, one: Array, level: Levels, other: Array, second: Levels) -> Array:
        """The prior covariance `[N, M]` of values at features `[N, D]` and `[M, D]`, each of a level."""
        apart = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T
        low = 1 + self.swing**2 * np.exp(-apart / 2 / self.reach**2)
        low += self.slope**2 * one[:, -self.linear :] @ other[:, -self.linear :].T
        scale = self.rho ** (level[:, None] + second).astype(np.float64)
        both = (level[:, None] == HIGH) & (second == HIGH)
        covariance: Array = scale * low + both * self.change**2 * np.exp(-apart / 2 / self.far**2)
        return covariance


@dataclass(frozen=True, eq=False)
class Estimator:
    """The posterior after evaluations of plans: features `[N, D]`, levels `[N]`, and whether they fly, `[N]`."""

    features: Array
    level: Levels
    flies: NDArray[np.bool_]
    link: Link = field(default_factory=Link)

    @cached_property
    def _fitted(self) -> tuple[Array, Array, Array]:
        """The slope of the log-likelihood at the mode, the roots of its curvature, and the factor of 1 + s K s."""
        sign = np.where(self.flies, 1.0, -1.0)
        prior = self.link(self.features, self.level, self.features, self.level)
        value, best = np.zeros(len(sign)), -np.inf
        for _ in range(ROUNDS):
            slope, curvature = _likelihood(sign, value)
            root = np.sqrt(curvature)
            factor = cholesky(np.eye(len(sign)) + root[:, None] * prior * root, lower=True)
            aim = curvature * value + slope
            weight = aim - root * cho_solve((factor, True), root * (prior @ aim))
            value = prior @ weight
            objective = float(log_ndtr(sign * value).sum() - weight @ value / 2)
            if objective - best < CLOSE:
                break
            best = objective
        slope, curvature = _likelihood(sign, value)
        root = np.sqrt(curvature)
        return slope, root, cholesky(np.eye(len(sign)) + root[:, None] * prior * root, lower=True)

    def values(self, features: Array, level: int = HIGH) -> tuple[Array, Array]:
        """Mean and variance of a level's value at features `[M, D]`, `[M]` each."""
        queried = np.full(len(features), level)
        slope, root, factor = self._fitted
        across = self.link(self.features, self.level, features, queried)
        before = np.array([self.link(row[None], queried[:1], row[None], queried[:1])[0, 0] for row in features])
        explained = solve_triangular(factor, root[:, None] * across, lower=True)
        return across.T @ slope, before - (explained**2).sum(0)

    def chance(self, features: Array, level: int = HIGH) -> Array:
        """That plans fly, `[M]`: Phi(m / sqrt(1 + v))."""
        mean, variance = self.values(features, level)
        return np.asarray(ndtr(mean / np.sqrt(1 + variance)), np.float64)

    def doubt(self, features: Array, level: int = HIGH) -> Array:
        """-|m| / v, `[M]`: what is nearest to the boundary, for its variance, is evaluated first."""
        mean, variance = self.values(features, level)
        return np.asarray(-np.abs(mean) / (variance + 1e-9), np.float64)

    def joined(self, features: Array, level: int, flies: NDArray[np.bool_]) -> Estimator:
        """With further evaluations."""
        return Estimator(
            np.concatenate([self.features, features]),
            np.concatenate([self.level, np.full(len(features), level)]),
            np.concatenate([self.flies, flies]),
            self.link,
        )


def _likelihood(sign: Array, value: Array) -> tuple[Array, Array]:
    """The slope of log Phi(sign value), and minus its curvature."""
    ratio = np.exp(-(value**2) / 2 - log_ndtr(sign * value)) / np.sqrt(2 * np.pi)
    return sign * ratio, ratio**2 + sign * value * ratio
