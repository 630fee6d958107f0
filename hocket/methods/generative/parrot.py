"""Parrot: several rewards without weights, by the samples that no other dominates (Lee et al., arXiv:2401.05675).

A sum of rewards needs weights, and the reward of the largest scale rules it. Parrot learns from a batch's Pareto front
alone: samples than which no other is better in one reward and at least as good in all. Any increasing change of a
reward's scale leaves the front. As shipped the two rewards of a picture are that its digits are read, and that it uses
little ink, which stands in for the paper's aesthetics and sentiment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.noise_laws import FlowSDE, Window
from hocket.core.signals import REWARD
from hocket.credit.pairs import members_by_group
from hocket.methods.base.conventions import COMMON
from hocket.methods.base.flow_grpo import FLOW_GRPO
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.rollout.noisy_sampling import NoisySampling
from hocket.stages import Credit, Reward
from hocket.tasks.drawn_digits import DrawingReward
from hocket.types import Trajectory


def pareto_front(values: Tensor) -> Tensor:
    """Which rows of `[N, K]` no other row dominates, `[N]` bool; equal rows do not dominate each other."""
    least = (values[None] >= values[:, None]).all(-1)
    better = (values[None] > values[:, None]).any(-1)
    return ~(least & better).any(1)


@dataclass(frozen=True)
class ParetoWeights(Credit):
    """`A_i = G/|P| [i in P] - 1`, P the group's front by all its scores: the weight 1/|P|, less its mean, times G.

    The mean takes nothing from the expected gradient. A group that is its own front gets 0 throughout. Scores are those
    of trajectories, by any names but that of their sum; where one is missing, the trajectory gets weight 0.

    Attributes:
        by: what makes samples comparable.

    Raises:
        ConfigurationError: on a call, for fewer than two scores.
    """

    by: GroupBy = GroupBy("scenario")
    least_samples: ClassVar[int] = 2

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        names = sorted(set(batch.scores) - set(REWARD.values()))
        chosen = [batch.scores[name].values for name in names if batch.scores[name].level is Level.TRAJECTORY]
        if len(chosen) < 2:
            raise ConfigurationError(
                f"ParetoWeights compares samples by two scores or more, and this run has {', '.join(names) or 'none'}; "
                "add a --reward, or take a recipe for one"
            )
        values, occurrences = torch.stack(chosen, 1).double(), batch.occurrences
        known = ~values.isnan().any(1)
        advantage = torch.zeros(batch.trajectories, dtype=torch.float64)
        for group in members_by_group(batch, self.by):
            members = torch.tensor([i for i in group if known[i]], dtype=torch.long)
            front = pareto_front(values[members])
            advantage[members] = len(members) * front / front.sum().clamp(min=1).double() - 1.0
        weight = torch.where(known[occurrences.trajectory], occurrences.weight, torch.zeros_like(occurrences.weight))
        return replace(occurrences, advantage=advantage[occurrences.trajectory], weight=weight)


@dataclass(frozen=True)
class LittleInk(Reward):
    """The share of a picture that is not inked, in [0, 1]; pixels lie in [-1, 1], and 1 is full ink."""

    name: str = "little-ink"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float]:
        return [_blank(trajectory) for trajectory in trajectories]


def _blank(trajectory: Trajectory) -> float:
    if trajectory.final_state is None:
        return 0.0
    ink = np.clip((np.asarray(trajectory.final_state, np.float64) + 1) / 2, 0.0, 1.0)
    return 1.0 - float(np.mean(ink)) if np.isfinite(ink).all() else 0.0


PARROT = FLOW_GRPO.but(
    name="parrot",
    title="Parrot: Pareto-optimal rewards of text-to-image generation",
    source="Lee et al., arXiv:2401.05675",
    catalogue_ids=("parrot",),
    axes=("reward", "objective", "policy"),
    formula="L = -1/N sum_i A_i sum_t log pi(x_t+1 | x_t),  A_i = G/|P| [i in P] - 1,  P the non-dominated of a prompt",
    conventions={
        **COMMON,
        "aggregation": "a sum over a trajectory's noisy steps, then the mean over trajectories",
        "log-density": FLOW_GRPO.conventions["log-density"],
        "steps without noise": FLOW_GRPO.conventions["steps without noise"],
        "noisy steps": FLOW_GRPO.conventions["noisy steps"],
        "compared": "the samples of a prompt; the paper's are those of a batch",
        "baseline": "the mean weight, which leaves the expected gradient",
        "ties": "kept: equal samples do not dominate each other",
        "KL": "none",
    },
    note="the model has no words for tags of rewards, and no language model expands prompts jointly",
    rollout=NoisySampling(samples=16, law=FlowSDE(0.7), window=Window(0, 4)),
    rewards=(DrawingReward(), LittleInk()),
    credit=ParetoWeights(),
    objective=PolicyGradient(aggregate="sequence-sum"),
)
