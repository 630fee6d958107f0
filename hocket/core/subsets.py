"""Drawing k of n without replacement by scores: Gumbel top-k, and exact log-probs of the set drawn.

Adding Gumbel noise to log-weights and taking the k largest draws one after the other without replacement, each in
proportion to its weight among those left (Plackett-Luce; Vieira 2014; Kool et al., arXiv:1903.06059). A set is drawn in
any of its orders, so its probability is their sum: here over the 2^k subsets of it, each the set of those drawn first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key

Numbers = NDArray[np.float64]

LARGEST = 12
"""The largest set whose probability is summed."""

LOWEST = 200.0
"""Nats below the highest score at which a score counts as no lower, so that products of weights do not vanish."""


def drawn(scores: Sequence[float] | Numbers, count: int, key: Key) -> tuple[int, ...]:
    """The places of `count` of them, in the order drawn; all where there are no more."""
    noise = key.numpy().gumbel(size=len(scores))
    order = np.argsort(-(np.asarray(scores, np.float64) + noise), kind="stable")
    return tuple(order[:count].tolist())


def best(scores: Sequence[float] | Numbers, count: int) -> tuple[int, ...]:
    """The places of the `count` highest, of equals the first, the highest first."""
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    return tuple(order[:count].tolist())


def logp(scores: Sequence[float] | Numbers, chosen: Sequence[int]) -> float:
    """The log-probability in nats that the set `chosen` is drawn, in whatever order."""
    return _with_gradient(np.asarray(scores, np.float64), tuple(chosen))[0]


def gradient(scores: Sequence[float] | Numbers, chosen: Sequence[int]) -> Numbers:
    """The derivative of `logp` by every score, `[n]`; its entries sum to 0."""
    return _with_gradient(np.asarray(scores, np.float64), tuple(chosen))[1]


def _with_gradient(scores: Numbers, chosen: tuple[int, ...]) -> tuple[float, Numbers]:
    if len(chosen) > LARGEST or len(set(chosen)) < len(chosen):
        raise ConfigurationError(f"a set of {len(chosen)}: at most {LARGEST} different places have an exact log-prob")
    weights = np.exp(np.maximum(scores - scores.max(), -LOWEST))
    members = weights[list(chosen)]
    # chance[S]: that the first |S| drawn are S, sum_i chance[S - i] w_i / left; and its derivative by the log-weights.
    chance = {0: 1.0}
    slope = {0: np.zeros_like(weights)}
    for mask in range(1, 1 << len(chosen)):
        total, by = 0.0, np.zeros_like(weights)
        for place, at in enumerate(chosen):
            if not mask >> place & 1:
                continue
            before = mask ^ (1 << place)
            gone = [chosen[other] for other in range(len(chosen)) if before >> other & 1]
            left = np.delete(weights, gone).sum()  # Not the whole without them, which may be 0 by cancellation.
            share = members[place] / left
            rest = -weights / left
            rest[gone] = 0.0
            rest[at] += 1.0
            total += chance[before] * share
            by += share * (slope[before] + chance[before] * rest)
        chance[mask], slope[mask] = total, by
    last = (1 << len(chosen)) - 1
    return float(np.log(chance[last])), slope[last] / chance[last]
