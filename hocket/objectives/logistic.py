"""Logistic regression of preferences on differences, solved exactly."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def logistic_weights(difference: Tensor, ridge: float, weight: Tensor | None = None, steps: int = 50) -> Tensor:
    """v that minimises -sum_i w_i log sigmoid(v . d_i) + ridge/2 |v|^2, `[J]`, by Newton's method.

    `difference` `[n, J]` is what sets the preferred apart from the other, `weight` `[n]` is 1 where None. Steps are
    halved until the sum falls; with ridge > 0 there is exactly one minimum.
    """
    used = torch.ones(len(difference), dtype=difference.dtype) if weight is None else weight

    def cost(at: Tensor) -> Tensor:
        return -(used * logsigmoid(difference @ at)).sum() + ridge / 2 * at @ at

    found = torch.zeros(difference.shape[1], dtype=difference.dtype)
    for _ in range(steps):
        slope = ridge * found - difference.T @ (used * torch.sigmoid(-(difference @ found)))
        move = torch.linalg.solve(curvature(difference, found, ridge, used), slope)
        length = 1.0
        while cost(found - length * move) > cost(found) and length > 1e-6:
            length /= 2
        found = found - length * move
        if float(move.abs().max()) < 1e-12:
            break
    return found


def curvature(difference: Tensor, weights: Tensor, ridge: float, weight: Tensor | None = None) -> Tensor:
    """H = sum_i w_i p_i (1 - p_i) d_i d_i^T + ridge I, the Hessian of what `logistic_weights` minimises, `[J, J]`."""
    chance = torch.sigmoid(difference @ weights)
    spread = chance * (1 - chance) * (1.0 if weight is None else weight)
    return difference.T @ (spread[:, None] * difference) + ridge * torch.eye(len(weights), dtype=difference.dtype)
