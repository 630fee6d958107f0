"""The formulas of credit: one per function, on plain tensors, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.core.segments import segment_count, segment_extreme, segment_mean, segment_std, suffix_sum


def centred(values: Tensor, group: Tensor, size: int) -> Tensor:
    """`R_i - mean_g R`, `[M]`.

    Exactly 0 in a group whose members are all equal, such as a group of one. There the rounding error of the mean would
    be amplified by a division by the group's deviation.
    """
    highest = segment_extreme(values, group, size, largest=True)
    lowest = segment_extreme(values, group, size, largest=False)
    difference = values - segment_mean(values, group, size)[group]
    return torch.where((highest > lowest)[group], difference, torch.zeros_like(difference))


def leave_one_out(values: Tensor, group: Tensor, size: int) -> Tensor:
    """`R_i - mean_{j in g, j != i} R_j`, which is `G / (G - 1) (R_i - mean_g R)`, `[M]`.

    RLOO (Kool et al. 2019; Ahmadian et al. 2024, arXiv 2402.14740). A group of one has no other members and yields 0.
    """
    count = segment_count(group, size)[group]
    return centred(values, group, size) * count / (count - 1).clamp(min=1)


def scaled(values: Tensor, spread_of: Tensor, group: Tensor, size: int, *, ddof: int, epsilon: float) -> Tensor:
    """`values_i / (std_g(spread_of) + epsilon)`, `[M]`; 0 stays 0 where the deviation and epsilon are both 0."""
    divisor = segment_std(spread_of, group, size, ddof=ddof)[group] + epsilon
    return torch.where(divisor > 0, values / divisor, values)


def whitened(values: Tensor, *, ddof: int = 1, epsilon: float = 1e-8) -> Tensor:
    """`(x - mean) / (std + epsilon)` over all values, `[M]`; all 0 when they are equal."""
    group = torch.zeros(len(values), dtype=torch.long)
    middle = centred(values, group, 1)
    return scaled(middle, middle, group, 1, ddof=ddof, epsilon=epsilon)


def temporal_differences(rewards: Tensor, values: Tensor, final: Tensor, trajectory: Tensor, gamma: float) -> Tensor:
    """`delta_t = r_t + gamma V_{t+1} - V_t`, `[E]`; the value after a trajectory's last decision is its `final` value.

    `rewards`, `values` and `trajectory` are `[E]`, contiguous per trajectory; `final` is `[N]`.
    """
    following = final[trajectory]
    same = trajectory[1:] == trajectory[:-1]
    following[:-1] = torch.where(same, values[1:], following[:-1])
    return rewards + gamma * following - values


def generalised_advantages(
    rewards: Tensor, values: Tensor, final: Tensor, trajectory: Tensor, *, gamma: float, lam: float
) -> Tensor:
    """`A_t = sum_k (gamma lam)^k delta_{t+k}` to the end of the trajectory, `[E]`.

    GAE (Schulman et al. 2016, arXiv 1506.02438, equation 16); shapes as in `temporal_differences`.
    """
    delta = temporal_differences(rewards, values, final, trajectory, gamma)
    return suffix_sum(delta, trajectory, len(final), discount=gamma * lam)
