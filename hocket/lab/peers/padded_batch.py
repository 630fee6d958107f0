"""A batch as most codebases hold it, and the pieces that several of their losses are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """A batch as most codebases hold it: N answers side by side, padded to the longest.

    Attributes:
        logp, old, reference: `[N, L]`, 0 at padding; `logp` is differentiable.
        proximal: the learner's log-probs before the update, `[N, L]`; `old` is then the sampler's.
        entropy, value: `[N, L]`, recorded and differentiable. mask: `[N, L]`, 1 at tokens. reward: `[N]`.
        turn: which turn a token belongs to, `[N, L]`; 0 where there is one. paid: what a turn earned besides `reward`,
            at its last token, `[N, L]`. belief: in the right answer as the token's turn began, `[N, L]`.
        groups: how many there are, each group's members adjacent, all of one size.
    """

    logp: Tensor
    old: Tensor
    reference: Tensor
    proximal: Tensor
    entropy: Tensor
    value: Tensor
    mask: Tensor
    reward: Tensor
    turn: Tensor
    paid: Tensor
    belief: Tensor
    groups: int

    @staticmethod
    def of(document: Mapping[str, Any]) -> Rows:
        """From a microscope document whose groups are adjacent and of one size."""
        rows = document["trajectories"]
        longest = max(len(row["logp"]) for row in rows)

        def padded(values: Iterable[Sequence[float]]) -> Tensor:
            return torch.tensor([[*row, *[0.0] * (longest - len(row))] for row in values], dtype=torch.float64)

        def column(name: str) -> Tensor:
            return padded(row[name] for row in rows)

        turns = [row.get("turn") or [0] * len(row["logp"]) for row in rows]
        return Rows(
            logp=column("logp").requires_grad_(),
            old=column("logp_behaviour"),
            reference=column("logp_ref"),
            proximal=column("logp_proximal" if "logp_proximal" in rows[0] else "logp_behaviour"),
            entropy=column("entropy").requires_grad_(),
            value=column("value").requires_grad_(),
            mask=padded([1.0] * len(row["logp"]) for row in rows),
            reward=torch.tensor([float(row["scores"]["reward"]) for row in rows], dtype=torch.float64),
            turn=padded(turns),
            paid=padded(_paid(row, turn) for row, turn in zip(rows, turns, strict=True)),
            belief=padded([row["info"]["beliefs"][n] for n in turn] for row, turn in zip(rows, turns, strict=True)),
            groups=len({row["group"] for row in rows}),
        )

    def by_group(self) -> Tensor:
        """Rewards `[groups, samples]`."""
        return self.reward.view(self.groups, -1)


def _paid(row: Mapping[str, Any], turn: Sequence[int]) -> list[float]:
    """What each turn earned, at its last token."""
    scores = row.get("turn_scores") or [{}] * (turn[-1] + 1)
    ends = [place == len(turn) - 1 or turn[place + 1] != number for place, number in enumerate(turn)]
    return [float(scores[number].get("reward", 0.0)) * end for number, end in zip(turn, ends, strict=True)]


Loss = Callable[[Rows], Tensor]
"""What an implementation computes from a batch."""


def group_scores(batch: Rows, *, epsilon: float | None) -> Tensor:
    """Rewards minus their group's mean, over its sample deviation (`torch.std`) plus epsilon; None: over 1."""
    rewards = batch.by_group()
    centred = rewards - rewards.mean(1, keepdim=True)
    if epsilon is not None:
        centred = centred / (rewards.std(1, keepdim=True) + epsilon)
    return centred.reshape(-1, 1)


def leave_one_out(batch: Rows) -> Tensor:
    """Rewards minus the mean of the group's others, `[N, 1]`."""
    rewards = batch.by_group()
    return (rewards - (rewards.sum(1, keepdim=True) - rewards) / (rewards.shape[1] - 1)).reshape(-1, 1)


def surrogate(ratio: Tensor, advantage: Tensor, low: float, high: float, dual: float | None = None) -> Tensor:
    """PPO's clipped loss per token; with `dual` never above `-dual * advantage` where the advantage is negative."""
    loss = torch.maximum(-ratio * advantage, -ratio.clamp(1 - low, 1 + high) * advantage)
    return loss if dual is None else torch.where(advantage < 0, torch.minimum(loss, -dual * advantage), loss)


def token_mean(loss: Tensor, batch: Rows) -> Tensor:
    """Over all tokens of the batch."""
    return (loss * batch.mask).sum() / batch.mask.sum()


def sequence_mean(loss: Tensor, batch: Rows) -> Tensor:
    """Over an answer's tokens, then over answers."""
    return ((loss * batch.mask).sum(1) / batch.mask.sum(1)).mean()


def low_variance_kl(batch: Rows) -> Tensor:
    """The estimate k3 of the divergence from the reference, per token."""
    gap = batch.reference - batch.logp
    return gap.exp() - gap - 1


def mean_log_ratio(batch: Rows) -> Tensor:
    """The mean log-ratio of an answer's tokens, `[N, 1]`."""
    return (((batch.logp - batch.old) * batch.mask).sum(1) / batch.mask.sum(1))[:, None]
