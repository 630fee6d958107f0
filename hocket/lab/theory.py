"""Closed forms that methods are checked against: tilts, and how GRPO amplifies success.

Distributions are float64 tensors over an enumerable set of answers. With a binary reward and success rate p, GRPO's
advantage is `plus(p) = (1 - p)/sqrt(p (1 - p) + e)` for a right answer and `-minus(p) = -p/sqrt(p (1 - p) + e)` for a
wrong one. Without clipping a round maximises `E_old[pi/pi_old A] - beta KL(pi || ref)`, whose optimum is the tilt of
the reference by A/beta (Mroueh 2025, arXiv 2503.06639). As plus + minus = 1/sqrt(p (1 - p) + e), the success rate
follows `p_n = h(p_{n-1})`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def tilted(reference: Tensor, gain: Tensor, temperature: float) -> Tensor:
    """`reference exp(gain / temperature) / Z`, `[K]`: the maximiser of E[gain] - temperature KL(. || reference)."""
    return torch.softmax(reference.log() + gain / temperature, -1)


def success(distribution: Tensor, right: Tensor) -> float:
    """The probability of the answers where `right` `[K]` bool holds."""
    return float(distribution[right].sum())


def grpo_advantage(right: Tensor, rate: float, epsilon: float) -> Tensor:
    """The advantage of each answer when a share `rate` of the old policy's answers is right, `[K]` float64."""
    scale = math.sqrt(rate * (1 - rate) + epsilon)
    return (right.double() - rate) / scale


def amplified(old: Tensor, reference: Tensor, right: Tensor, *, beta: float, epsilon: float) -> Tensor:
    """The optimum of one round of GRPO from the old policy, `[K]`."""
    return tilted(reference, grpo_advantage(right, success(old, right), epsilon), beta)


def success_map(rate: float, reference_rate: float, *, beta: float, epsilon: float) -> float:
    """`h(p) = 1 / (1 + (1 - p_ref)/p_ref exp(-1/(beta sqrt(p (1 - p) + e))))`."""
    exponent = 1 / (beta * math.sqrt(rate * (1 - rate) + epsilon))
    return 1 / (1 + (1 - reference_rate) / reference_rate * math.exp(-exponent))


def success_path(reference_rate: float, rounds: int, *, beta: float, epsilon: float) -> list[float]:
    """`p_0 = p_ref, p_1 = h(p_0), ...`, `rounds` + 1 numbers."""
    path = [reference_rate]
    for _ in range(rounds):
        path.append(success_map(path[-1], reference_rate, beta=beta, epsilon=epsilon))
    return path


def fixed_points(reference_rate: float, *, beta: float, epsilon: float, grid: int = 20_000) -> list[float]:
    """All `p = h(p)` in [0, 1] at which h crosses the diagonal on a grid, by bisection, rising.

    One so near 1 that rounding cannot tell them apart is given as 1.
    """

    def gap(rate: float) -> float:
        return success_map(rate, reference_rate, beta=beta, epsilon=epsilon) - rate

    roots = []
    for step in range(grid):
        low, high = step / grid, (step + 1) / grid
        if gap(low) == 0 or gap(low) * gap(high) < 0:
            for _ in range(80):
                middle = (low + high) / 2
                low, high = (middle, high) if gap(low) * gap(middle) > 0 else (low, middle)
            roots.append((low + high) / 2)
    return [*roots, 1.0] if gap(1.0) == 0 and (not roots or roots[-1] < 1 - 1 / grid) else roots


def slope(rate: float, reference_rate: float, *, beta: float, epsilon: float) -> float:
    """`h'(p)`: at a fixed point, below 1 in size where rounds converge to it."""
    value = success_map(rate, reference_rate, beta=beta, epsilon=epsilon)
    inner = rate * (1 - rate) + epsilon
    return value * (1 - value) * (2 * rate - 1) / (2 * beta * inner * math.sqrt(inner))
