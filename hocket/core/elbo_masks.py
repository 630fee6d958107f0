"""Masks of a finished text whose weighted log-probs add up to the ELBO of a masked-diffusion language model.

The ELBO of an answer y with L places is the integral over t in [0, 1] of E[1/t sum_i log p(y_i | y masked)], in which
every place is masked with probability t. It is also the mean, over m even in 1..L and over masks of m places, of
L/m sum_i log p(y_i | y masked); and the mean over orders of filling in of the order's log-probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hocket.core.columns import InfoColumn

LOOK_WEIGHTS = InfoColumn("look_weights", "The factor of the log-probs of each look at an answer in its ELBO, by turn.")


@dataclass(frozen=True)
class ElboMasks:
    """Which masks of an answer are looked at, and how much each counts: an option of an `Assignment`."""

    def draw(self, places: int, draws: np.random.Generator) -> list[NDArray[np.bool_]]:
        """The masks of an answer of so many places, `[L]` each; some may be empty."""
        raise NotImplementedError

    def weights(self, masked: Sequence[int], places: int) -> list[float]:
        """The factor of the log-probs of each mask, from the numbers of masked places of all that were drawn."""
        raise NotImplementedError


@dataclass(frozen=True)
class GaussMasks(ElboMasks):
    """One mask at each of `points` Gauss-Legendre points t, every place masked with probability t (arXiv:2510.08554).

    With masks enumerated the rule is exact for answers of up to 2 `points` places.
    """

    points: int = 2

    def __post_init__(self) -> None:
        if self.points < 1:
            raise ValueError(f"points must be at least 1, not {self.points}")

    def rule(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The points in (0, 1) and their weights, `[points]` each."""
        return _gauss(self.points)

    def draw(self, places: int, draws: np.random.Generator) -> list[NDArray[np.bool_]]:
        return [draws.random(places) < level for level in self.rule()[0]]

    def weights(self, masked: Sequence[int], places: int) -> list[float]:
        points, weights = self.rule()
        return [float(weight) for weight in weights / points]


@dataclass(frozen=True)
class ComplementaryMasks(ElboMasks):
    """`pairs` of a mask and its complement; the number of masked places is even in 1..L.

    Of a mask of all places there is no complement, so it counts twice.
    """

    pairs: int = 1

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise ValueError(f"pairs must be at least 1, not {self.pairs}")

    def draw(self, places: int, draws: np.random.Generator) -> list[NDArray[np.bool_]]:
        masks: list[NDArray[np.bool_]] = []
        for _ in range(self.pairs):
            mask = draws.permutation(places) < draws.integers(1, places + 1)
            masks += [mask] if mask.all() else [mask, ~mask]
        return masks

    def weights(self, masked: Sequence[int], places: int) -> list[float]:
        return [(1.0 if size == places else 0.5 * places / size) / self.pairs for size in masked]


@cache
def _gauss(points: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    place, weight = np.polynomial.legendre.leggauss(points)
    return (place + 1) / 2, weight / 2
