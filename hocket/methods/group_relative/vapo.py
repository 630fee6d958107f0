"""VAPO: PPO with a critic for long chains of thought (Yue et al., arXiv:2504.05118).

A fixed lambda forgets the outcome of long answers and follows noise in short ones, so `LengthAdaptiveGAE` lets it grow
with an answer's length, while the critic learns from whole returns. The clip leaves more room above, every token weighs
the same, and right answers are imitated besides (`ImitateRight`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.segments import segment_count, suffix_sum
from hocket.core.signals import RIGHT, returns, rewards_by_occurrence
from hocket.credit.formulas import temporal_differences, whitened
from hocket.credit.gae import final_values, rewards_passed_back, values_known
from hocket.credit.reinforce import in_place
from hocket.methods.base.ppo import PPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, weights
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.rollout.independent import Independent
from hocket.stages import Credit, Objective
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class LengthAdaptiveGAE(Credit):
    """`A_t = sum_k (gamma lam_i)^k delta_{t+k}`, `lam_i = max(0, 1 - 1/(alpha l_i))`, l_i decisions of the whole.

    So the sum of the weights lam^k is about alpha l_i, a share of every answer. The targets of the value function are
    returns, `sum_k gamma^k r_{t+k}` (decoupled GAE: lambda 1 for the critic), a cut-off answer's with the value of its
    end. Differences, unknown values and whitening are as in `GAE`.

    Attributes:
        gamma: discount per decision.
        alpha: 0.05 in the paper, where answers are thousands of tokens long; up to 1/alpha decisions lam is 0.
        whiten, epsilon, ddof: as in `GAE`.

    Raises:
        ConfigurationError: on a call, when the batch has no values.
    """

    gamma: float = 1.0
    alpha: float = 0.05
    whiten: bool = True
    epsilon: float = 1e-8
    ddof: int = 1

    gives_targets: ClassVar[bool] = True
    reads: ClassVar[frozenset[Column]] = frozenset({Column.VALUE})

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1 or self.alpha <= 0:
            raise ValueError(f"gamma must lie in [0, 1] and alpha be positive, not {self.gamma} and {self.alpha}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages and value targets, both `[E]` float64."""
        if batch.value is None:
            raise ConfigurationError(
                "LengthAdaptiveGAE reads the value of every decision, but the batch has no column 'value'"
            )
        seen, known = batch.occurrences, values_known(batch)
        values = batch.value.detach().double()[seen.decision]
        trajectory, final = seen.trajectory[known], final_values(batch)
        rewards = rewards_passed_back(rewards_by_occurrence(batch), known, seen.trajectory)[known]
        delta = temporal_differences(rewards, values[known], final, trajectory, self.gamma)
        length = segment_count(trajectory, len(final)).double().clamp(min=1)
        lam = (1 - 1 / (self.alpha * length)).clamp(min=0)[trajectory]
        raw = in_place(suffix_sum(delta, trajectory, len(final), discount=self.gamma * lam), known)
        whole = in_place(suffix_sum(delta, trajectory, len(final), discount=self.gamma), known)
        used = (seen.weight != 0) & known
        credit = whitened(raw[used], ddof=self.ddof, epsilon=self.epsilon) if self.whiten else raw[used]
        return replace(seen, advantage=in_place(credit, used), target=whole + values)


@dataclass(frozen=True)
class ImitateRight(Objective):
    """Adds `-coefficient log pi(a)` at the decisions of right answers, those of return at least `least`.

    Denominators are of the right answers alone: with `token-mean`, the mean over all their tokens.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    coefficient: float = 0.1
    least: float = RIGHT
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.coefficient < 0:
            raise ValueError(f"coefficient must be at least 0, not {self.coefficient}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, value = batch.occurrences, -self.coefficient * now.logp[batch.occurrences.decision]
        right = (returns(batch) >= self.least)[seen.trajectory]
        chosen = batch.credited(weight=torch.where(right, seen.weight, torch.zeros_like(seen.weight)))
        return Terms(value, weights(chosen, self.aggregate, self.horizon, dtype=value.dtype))


VAPO = PPO.but(
    name="vapo",
    title="Value-based Augmented PPO",
    source="Yue et al., arXiv:2504.05118",
    axes=("credit", "objective"),
    formula="L = -mean_t min(r_t A_t, clip(r_t, 0.8, 1.28) A_t) + 1/2 mean_t (V_t - G_t)^2 "
    "- 0.1 mean_{t right} log pi_t,  A = GAE(1, lam_i),  lam_i = 1 - 1/(0.05 l_i)",
    conventions={
        **PPO.conventions,
        "lambda": "of the policy 1 - 1/(alpha l), at least 0, alpha = credit.alpha = 0.05: 0 for answers of up to 20 "
        "decisions; of the critic 1",
        "clipping side": "0.2 below, 0.28 above; values are not clipped",
        "right answers": "those whose return is at least 0.5 (regularisers.1.least), their log-likelihood times 0.1",
        "samples": "8 of each prompt (16 in the paper)",
        "critic": "trained along; the paper first fits it to returns of the fixed policy for 50 steps",
    },
    note="the critic is not pretrained on returns of the first policy",
    rollout=Independent(samples=8),
    credit=LengthAdaptiveGAE(),
    objective=ClippedSurrogate(low=0.2, high=0.28, aggregate="token-mean"),
    regularisers=(*PPO.regularisers, ImitateRight()),
)
