"""LENS: GRPO that punishes wrong answers by how sure of them the policy was (Feng et al., arXiv:2510.08696).

`CalibratedReward` replaces the verdict by one that follows from reading the policy as a reward model, so that groups
without a right answer learn, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.segments import segment_count, segment_extreme, segment_mean, segment_sum
from hocket.core.signals import counted_trajectories, returns
from hocket.methods.base.grpo import GRPO
from hocket.rewards.shaping import added
from hocket.stages import Shaping

Confidence = Literal["mean", "sequence"]


def calibrated_reward(reward: Tensor, confidence: Tensor, difficulty: Tensor, limit: float | None) -> Tensor:
    """`r - (1 - r) g`, `g = c / (D - c)`; with a limit L, `g L / (g + L)` in the place of g, and L where c >= D.

    All `[N]` float64. With L = 1 and D = 1 the penalty of a wrong answer is its confidence itself.
    """
    room = (difficulty - confidence).clamp(min=0.0)
    penalty = confidence / room if limit is None else limit * confidence / (confidence + limit * room)
    return reward - (1 - reward) * penalty


@dataclass(frozen=True)
class CalibratedReward(Shaping):
    """`r~ = r - (1 - r) c / (D - c)`: LENS, likelihood estimation with negative samples (arXiv 2510.08696).

    Reads the policy as a reward model, p(right | q, o) = pi(o | q) / D(q): the gradient of its likelihood is the policy
    gradient of r~, D held fixed. A right answer keeps 1, a wrong one is punished more the surer the policy was of it,
    so that groups without a right answer learn too. Rewards are taken to be verdicts in [0, 1].

    Attributes:
        confidence: `mean`, c = exp of the mean log-prob over counted decisions, or `sequence`, c = pi(o | q) itself.
        difficulty: D(q), in (0, 1]; None estimates it per group. As E[pi/D] is the success rate, it is the mean of c
            over the smoothed success rate (right + 1/2)/(G + 1), at least the largest c and at most 1.
        limit: bounds the penalty smoothly; None is the formula itself, and wants a difficulty above every c.

    Raises:
        ConfigurationError: on a call without a limit, when some c reaches D.
    """

    confidence: Confidence = "mean"
    difficulty: float | None = None
    limit: float | None = 1.0

    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})

    def __post_init__(self) -> None:
        if self.confidence not in ("mean", "sequence"):
            raise ValueError(f"confidence must be 'mean' or 'sequence', not {self.confidence!r}")
        if self.difficulty is not None and not 0 < self.difficulty <= 1:
            raise ValueError(f"difficulty must be None or in (0, 1], not {self.difficulty}")
        if self.limit is None and self.difficulty is None:
            raise ValueError("without a limit the penalty may be infinite; set difficulty")
        if self.limit is not None and self.limit <= 0:
            raise ValueError(f"limit must be None or positive, not {self.limit}")

    def __call__(self, batch: Batch) -> Batch:
        reward, confidence = returns(batch).clamp(0.0, 1.0), self._confidence(batch)
        difficulty = self._difficulty(batch, reward, confidence)
        if self.limit is None and bool((confidence >= difficulty).any()):
            raise ConfigurationError(
                f"an answer's probability reaches difficulty = {self.difficulty}; set difficulty higher or give a limit"
            )
        change = calibrated_reward(reward, confidence, difficulty, self.limit) - reward
        return added(batch, Level.TRAJECTORY, torch.where(counted_trajectories(batch), change, 0.0))

    def _confidence(self, batch: Batch) -> Tensor:
        """c of each trajectory, `[N]` float64; 0 where no decision counts."""
        seen = batch.occurrences
        used = seen.weight != 0
        logp = batch.logp[Column.BEHAVIOUR.name].values.detach().double()[seen.decision[used]]
        whole = segment_sum(logp, seen.trajectory[used], batch.trajectories)
        length = segment_count(seen.trajectory[used], batch.trajectories)
        scale = length.clamp(min=1) if self.confidence == "mean" else torch.ones_like(length)
        return torch.where(length > 0, (whole / scale).exp(), 0.0)

    def _difficulty(self, batch: Batch, reward: Tensor, confidence: Tensor) -> Tensor:
        if self.difficulty is not None:
            return torch.full_like(confidence, self.difficulty)
        used, groups = counted_trajectories(batch), GroupBy("scenario")(batch)
        own, index, size = confidence[used], groups.index[used], groups.size
        rate = (segment_sum(reward[used], index, size) + 0.5) / (segment_count(index, size) + 1)
        guess = segment_mean(own, index, size) / rate
        return guess.maximum(segment_extreme(own, index, size, largest=True)).clamp(max=1.0)[groups.index]


LENS = GRPO.but(
    name="lens",
    title="Likelihood estimation with negative samples",
    source="Feng et al., Don't Waste Mistakes, arXiv:2510.08696",
    catalogue_ids=("lens",),
    axes=("reward", "objective"),
    formula="R~ = R - (1 - R) g/(1 + g), g = c/(D - c), c = exp(mean_t log pi_old);  then GRPO",
    conventions={
        **GRPO.conventions,
        "confidence": "exp of the mean log-prob over decisions; shaping.0.confidence = sequence is the formula's own",
        "difficulty": "per group mean c over (k + 1/2)/(G + 1), k of G right, within [max c, 1]",
        "bound": "the penalty g is bounded smoothly by shaping.0.limit = 1; null is the formula's own",
        "constant group": "of right answers: advantage 0; of wrong ones: the surer, the lower",
    },
    shaping=(CalibratedReward(),),
)
