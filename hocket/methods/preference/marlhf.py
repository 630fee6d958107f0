"""MARLHF: equilibria from preferences of whole trajectories alone (Zhang et al., arXiv:2409.00717).

A reward for every step is fitted to preferences of sums, `L = -log sigmoid(sum_t r(tau1_t) - sum_t r(tau2_t)) + alpha
MSE over time`: the second term (`SmoothScores`) draws neighbouring steps together, so that the credit is not dumped on
one of them. A reference cloned from the data is added to the reward, `r + b log pi_ref(a|s)` (`ReferenceBonus`), so
that what the data never show looks bad, and any solver follows: here each agent learns by RLOO on its own. `marlhf`
fits the reward; `marlhf-policy` plays for it: start it from the model that was cloned, with `--reward model:RUN`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.segments import segment_sum
from hocket.credit.each_agent import EachAgent
from hocket.credit.pairs import AllPairs
from hocket.credit.score_positions import ReadAt
from hocket.methods.base.reward_model import REWARD_MODEL
from hocket.methods.base.rloo import RLOO
from hocket.objectives.scores import ScoreLoss
from hocket.rewards.shaping import added
from hocket.stages import Shaping
from hocket.types import Evaluation, Terms


@dataclass(frozen=True)
class SmoothScores(ScoreLoss):
    """Adds `alpha` times the mean over trajectories of `1/(T-1) sum_t (s_t - s_{t-1})^2`.

    T are the decisions of a trajectory that count. Of a single one nothing is asked.

    Attributes:
        alpha: how strongly neighbouring scores are drawn together.
    """

    alpha: float = 0.1

    couples: ClassVar[Level] = Level.TRAJECTORY

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha < 0:
            raise ValueError(f"alpha must be at least 0, not {self.alpha}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, counted = batch.occurrences, batch.occurrences.weight != 0
        scores, whose = self.scores(now, batch)[counted], seen.trajectory[counted]
        beside = whose[1:] == whose[:-1]
        change = (scores[1:] - scores[:-1]).square()
        steps = segment_sum(beside.double(), whose[1:], batch.trajectories)
        rows = (steps > 0).sum().clamp(min=1)
        weight = torch.where(beside, self.alpha / (rows * steps.clamp(min=1)[whose[1:]]), 0.0).to(change.dtype)
        jump = (change.detach() * weight).sum() / self.alpha if self.alpha else change.new_zeros(())
        return Terms(change, weight, Level.TRAJECTORY, {"scores/change": jump.sqrt().double()})


@dataclass(frozen=True)
class ReferenceBonus(Shaping):
    """`r_t += b log pi_ref(a_t | s_t)` at every decision: pessimism about what the reference would not do.

    Unlike a KL it does not reward the policy's entropy. Forced decisions, and such without a log-prob of the reference,
    cost nothing.

    Attributes:
        b: how much; 0 leaves rewards as they are.

    Raises:
        ConfigurationError: on a call, when the batch has no reference log-probs.
    """

    b: float = 0.05

    reads: ClassVar[frozenset[Column]] = frozenset({Column.REFERENCE})

    def __post_init__(self) -> None:
        if self.b < 0:
            raise ValueError(f"b must be at least 0, not {self.b}")

    def __call__(self, batch: Batch) -> Batch:
        if Column.REFERENCE.name not in batch.logp:
            raise ConfigurationError("ReferenceBonus reads log-probs 'reference', which are missing")
        told = batch.logp[Column.REFERENCE.name]
        known = told.present & ~batch.forced
        bonus = torch.where(known, told.values.detach().double(), 0.0)[batch.occurrences.decision]
        return added(batch, Level.DECISION, self.b * bonus)


MARLHF = REWARD_MODEL.but(
    name="marlhf",
    title="MARLHF's reward model: a reward per step from preferences of sums, smooth over time",
    source="Zhang et al., arXiv:2409.00717",
    family="preference",
    catalogue_ids=("marlhf",),
    axes=("reward", "team", "data", "analysis"),
    formula="L = mean_pairs -log sigmoid(sum_t r(tau_w, t) - sum_t r(tau_l, t)) "
    "+ alpha mean_tau 1/(T-1) sum_t (r_t - r_{t-1})^2",
    conventions={
        **REWARD_MODEL.conventions,
        "place": "a score is read after every decision, and a trajectory's is their sum",
        "smoothness": "alpha = 0.1 (regularisers.0.alpha); mean over a trajectory's neighbours, then over trajectories",
        "agents": "one scorer for all, which reads whose turn it is in what the agent was shown",
    },
    credit=ReadAt(AllPairs(), where="decisions"),
    regularisers=(SmoothScores(),),
)


MARLHF_POLICY = RLOO.but(
    name="marlhf-policy",
    title="MARLHF's second half: each agent by RLOO on the reward and a bonus for what the data hold",
    source="Zhang et al., arXiv:2409.00717",
    family="preference",
    catalogue_ids=("marlhf",),
    axes=("reward", "team"),
    formula="R = r + b sum_t log pi_ref(a_t | s_t),  of each agent: A_i = R_i - 1/(G-1) sum_{j != i} R_j",
    conventions={
        **RLOO.conventions,
        "reference": "the policy before training: start from the model cloned on the data (recipe `sft`)",
        "pessimism": "b = 0.05 per decision (shaping.0.b)",
        "solver": "independent RLOO per role, where the paper takes value decomposition or any other",
        "reward": "the task's own, or with --reward model:RUN that of a run of `marlhf`",
    },
    shaping=(ReferenceBonus(),),
    credit=EachAgent(RLOO.credit, by="role"),
)
