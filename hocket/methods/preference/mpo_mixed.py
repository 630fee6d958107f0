"""Mixed Preference Optimisation: DPO where labels are clear, then PPO where they are not (Gou and Nguyen, 2403.19443).

A reward model splits recorded pairs by how far it puts their members apart. `mpo-mixed` learns from the half with the
larger gaps, whose labels are reliable (`GapSplit`). `mpo-mixed-online` samples answers to the prompts of the others
(`HardPrompts`), charged with the KL from the model of the first stage, which is where it starts:

    plan: [{recipe: mpo-mixed, steps: 100}, {recipe: mpo-mixed-online, steps: 100, reward: ["model:RUN"]}]

The abstract names the stages; that the gap of a reward model splits is the usual reading.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from hocket.core import sums
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.methods.base.dpo import DPO, RECORDED
from hocket.methods.base.ppo import PPO_RLHF
from hocket.rewards.members import with_return
from hocket.rewards.strength import PREFERENCE, REWARDS_ALONE, strengths_of
from hocket.rollout.dynamic import total
from hocket.rollout.scored_pairs import ScoredPreferences
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Shaping
from hocket.types import Assignment, Experience, Trajectory

Part = Literal["easy", "hard"]


def largest(gap: Tensor, share: float) -> Tensor:
    """Which of the gaps `[P]` are among the largest, that share of them rounded up, `[P]` bool; of equals the first."""
    found = torch.zeros(len(gap), dtype=torch.bool)
    found[torch.argsort(gap, descending=True, stable=True)[: math.ceil(share * len(gap))]] = True
    return found


@dataclass(frozen=True)
class GapSplit(Shaping):
    """Recorded pairs of one part by the gap |R(chosen) - R(rejected)|, in the order recorded; the others weigh nothing.

    R is the return as it was before, so what rewards say. Afterwards the return is 1 for the chosen member, else 0.

    Attributes:
        keep: `easy`, the largest gaps of the batch, or `hard`, the others. share: of the easy ones.

    Raises:
        ConfigurationError: on a call, for a batch without recorded pairs.
    """

    keep: Part = "easy"
    share: float = 0.5

    def __post_init__(self) -> None:
        if self.keep not in get_args(Part) or not 0 < self.share < 1:
            raise ValueError(f"keep is easy or hard and share lies in (0, 1), not {self.keep!r} and {self.share}")

    def __call__(self, batch: Batch) -> Batch:
        pairs, mu = strengths_of(batch, "GapSplit")
        easy = largest(mu.abs(), self.share)
        kept = pairs[easy if self.keep == "easy" else ~easy]
        used = torch.zeros(batch.trajectories, dtype=torch.bool)
        used[kept.flatten()] = True
        value = torch.zeros(batch.trajectories, dtype=torch.float64)
        value[kept[:, 0]] = 1.0
        seen = batch.occurrences
        weight = torch.where(used[seen.trajectory], seen.weight, torch.zeros_like(seen.weight))
        return with_return(batch, value).credited(weight=weight)


@dataclass(frozen=True)
class HardPrompts(Rollout):
    """Samples of the scenarios whose recorded pair rewards put least apart; the pairs themselves are not learnt from.

    The gap is of the sum of an answer's scores, without weights. Metrics: `prompts/hard`, how many were sampled.

    Attributes:
        samples: trajectories of each. share: of the scenarios asked that are easy, and left out.

    Raises:
        ConfigurationError: on a call, for a scenario without a pair.
    """

    samples: int = 4
    share: float = 0.5

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0 <= self.share < 1:
            raise ValueError(f"samples must be at least 1 and share in [0, 1), not {self.samples} and {self.share}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """The samples, scenario by scenario."""
        pairs = await ScoredPreferences().collect(asked, play=play, score=score, ledger=ledger, key=key)
        said = [_rewarded(one) for one in pairs.trajectories]
        gap = torch.tensor([abs(chosen - other) for chosen, other in zip(said[::2], said[1::2], strict=True)])
        easy = largest(gap, self.share).tolist()
        hard = [replace(one, samples=self.samples) for one, left in zip(asked, easy, strict=True) if not left]
        trajectories = await play(hard)
        await score(trajectories)
        return Experience(trajectories, metrics={"prompts/hard": float(len(hard))})


def _rewarded(trajectory: Trajectory) -> float:
    """The sum of all scores but the preference."""
    return sums.total(total(score) for name, score in trajectory.scores.items() if name != PREFERENCE)


MPO_MIXED = DPO.but(
    name="mpo-mixed",
    title="Mixed Preference Optimisation, first stage: DPO on the pairs with large gaps",
    source="Gou and Nguyen, arXiv:2403.19443 (abstract); the split by a reward model's gap is the usual reading",
    catalogue_ids=("mpo-mixed",),
    axes=("data", "objective"),
    formula="L = -mean_{gap large} log sigmoid(beta (log pi(y_w)/ref(y_w) - log pi(y_l)/ref(y_l))),  gap = "
    "|R(y_w) - R(y_l)|;  then max E_hard[R] - beta KL(pi || pi_DPO)",
    task="graded-sums?dissent=0.5",
    conventions={
        **RECORDED,
        "gap": "of what the run's rewards say: --reward model:RUN, else the task's verifier",
        "split": "the half of each batch with the larger gaps is learnt from, the order as recorded (shaping.0.share)",
        "second stage": "mpo-mixed-online as a phase after it, or in a run of its own from this model",
    },
    rollout=ScoredPreferences(),
    combine=REWARDS_ALONE,
    shaping=(GapSplit(),),
)


MPO_MIXED_ONLINE = PPO_RLHF.but(
    name="mpo-mixed-online",
    title="Mixed Preference Optimisation, second stage: PPO on the prompts with small gaps",
    source="Gou and Nguyen, arXiv:2403.19443 (abstract)",
    family="preference",
    axes=("data", "objective"),
    task="graded-sums?dissent=0.5",
    conventions={
        **PPO_RLHF.conventions,
        "reference": "the policy as the phase began, or before training: the first stage's model",
        "prompts": "the half of each step whose recorded pairs have the smaller gaps (rollout.share)",
        "gap": "of the sum of all scores, without their weights",
    },
    rollout=HardPrompts(),
)
