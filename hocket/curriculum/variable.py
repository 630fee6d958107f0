"""Selection of scenarios before training: those on which the start model's rewards vary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hocket.core import sums


def sample_variance(rewards: Sequence[float]) -> float:
    """`sum (r - mean)^2 / (n - 1)`; 0 of fewer than two rewards. Exactly 0 where all are equal."""
    if len(rewards) < 2 or min(rewards) == max(rewards):
        return 0.0
    mean = sums.mean(rewards)
    try:
        return sums.total((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1)
    except OverflowError:
        return math.inf


def variable(rewards: Mapping[int, Sequence[float]], *, threshold: float = 0.0, share: float = 1.0) -> tuple[int, ...]:
    """The scenarios whose rewards' sample variance exceeds `threshold`, at most `share` of all, the most variable.

    `rewards` holds, by number of the scenario, what the start model earned in repeated attempts. Equally variable
    scenarios are taken in order of their numbers. The result is in rising order, for `Chosen`.
    """
    spread = {number: sample_variance(reward) for number, reward in rewards.items()}
    candidates = sorted((number for number in spread if spread[number] > threshold), key=lambda n: (-spread[n], n))
    return tuple(sorted(candidates[: max(1, round(share * len(rewards)))]))
