"""A batch as most codebases hold it, and the pieces that several of their losses are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Padded:
    """A batch as most codebases hold it: N answers side by side, padded to the longest.

    Attributes:
        logp, old, reference: `[N, L]`, 0 at padding; `logp` is differentiable.
        proximal: the learner's log-probs before the update, `[N, L]`; `old` is then the sampler's.
        entropy: `[N, L]`, recorded. mask: `[N, L]`, 1 at tokens. reward: `[N]`. groups: how many there are, each
            group's members adjacent, all of one size.
    """

    logp: Tensor
    old: Tensor
    reference: Tensor
    proximal: Tensor
    entropy: Tensor
    mask: Tensor
    reward: Tensor
    groups: int

    @staticmethod
    def of(document: Mapping[str, Any]) -> Padded:
        """From a microscope document whose groups are adjacent and of one size."""
        rows = document["trajectories"]
        longest = max(len(row["logp"]) for row in rows)

        def column(name: str) -> Tensor:
            return torch.tensor(
                [[*row[name], *[0.0] * (longest - len(row[name]))] for row in rows], dtype=torch.float64
            )

        mask = torch.tensor([[1.0] * len(r["logp"]) + [0.0] * (longest - len(r["logp"])) for r in rows]).double()
        reward = torch.tensor([float(row["scores"]["reward"]) for row in rows], dtype=torch.float64)
        groups = len({row["group"] for row in rows})
        proximal = column("logp_proximal" if "logp_proximal" in rows[0] else "logp_behaviour")
        return Padded(
            column("logp").requires_grad_(),
            column("logp_behaviour"),
            column("logp_ref"),
            proximal,
            column("entropy"),
            mask,
            reward,
            groups,
        )

    def by_group(self) -> Tensor:
        """Rewards `[groups, samples]`."""
        return self.reward.view(self.groups, -1)


Loss = Callable[[Padded], Tensor]
"""What an implementation computes from a batch."""


def group_scores(batch: Padded, *, epsilon: float | None) -> Tensor:
    """Rewards minus their group's mean, over its sample deviation (`torch.std`) plus epsilon; None: over 1."""
    rewards = batch.by_group()
    centred = rewards - rewards.mean(1, keepdim=True)
    if epsilon is not None:
        centred = centred / (rewards.std(1, keepdim=True) + epsilon)
    return centred.reshape(-1, 1)


def leave_one_out(batch: Padded) -> Tensor:
    """Rewards minus the mean of the group's others, `[N, 1]`."""
    rewards = batch.by_group()
    return (rewards - (rewards.sum(1, keepdim=True) - rewards) / (rewards.shape[1] - 1)).reshape(-1, 1)


def surrogate(ratio: Tensor, advantage: Tensor, low: float, high: float, dual: float | None = None) -> Tensor:
    """PPO's clipped loss per token; with `dual` never above `-dual * advantage` where the advantage is negative."""
    loss = torch.maximum(-ratio * advantage, -ratio.clamp(1 - low, 1 + high) * advantage)
    return loss if dual is None else torch.where(advantage < 0, torch.minimum(loss, -dual * advantage), loss)


def token_mean(loss: Tensor, batch: Padded) -> Tensor:
    """Over all tokens of the batch."""
    return (loss * batch.mask).sum() / batch.mask.sum()


def sequence_mean(loss: Tensor, batch: Padded) -> Tensor:
    """Over an answer's tokens, then over answers."""
    return ((loss * batch.mask).sum(1) / batch.mask.sum(1)).mean()


def mean_log_ratio(batch: Padded) -> Tensor:
    """The mean log-ratio of an answer's tokens, `[N, 1]`."""
    return (((batch.logp - batch.old) * batch.mask).sum(1) / batch.mask.sum(1))[:, None]
