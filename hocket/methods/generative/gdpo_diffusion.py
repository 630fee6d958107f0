"""GDPO: sequence-level GRPO of masked-diffusion language models by their ELBO (arXiv:2510.08554).

diffu-GRPO scores every token by one look at a fully masked answer. The ELBO is a better likelihood, but estimates of it
vary, nearly all of which comes from the random share t of masked tokens. GDPO takes the integral over t by two or three
Gauss points, so that the masks alone are random, and clips one ratio of the answer, exp(B_new - B_old).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.core.elbo_masks import GaussMasks
from hocket.methods.base.conventions import CENTRED
from hocket.methods.base.diffu_grpo import DIFFU_GRPO, MASKED
from hocket.objectives.aggregate import counted_lengths, share, trajectory_means, trajectory_sums
from hocket.objectives.ratios import log_ratios, saturated
from hocket.objectives.surrogate import clipped_surrogate, cut
from hocket.rewards.look_weights import LookWeights
from hocket.rollout.elbo_filling import ElboFilling
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms

LOOKED = {
    **MASKED,
    "decision": "a place of the finished answer that a look masks, at its log-prob there",
    "masks": "drawn for every answer, the same for old and new log-probs and for the reference's",
    "order": "of the distributions' own confidence, one token a step, of the sampling alone",
}
"""What recipes on the ELBO agree on."""


@dataclass(frozen=True)
class SequenceSurrogate(Objective):
    """Minimises -1/N sum_i min(s_i A_i, clip(s_i) A_i), s_i = exp(sum_t w_t (log pi - log pi_old)), w_t the weights.

    With weights of looks the sum is a difference of ELBOs. A_i is the mean advantage of the trajectory's decisions.

    Attributes:
        low, high: s_i is clipped to [1 - low, 1 + high].
    """

    low: float = 0.2
    high: float = 0.2

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.TRAJECTORY
    # Credit gives all decisions of a trajectory the same advantage.
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1 or self.high < 0:
            raise ValueError(f"low must be in [0, 1] and high at least 0, not {self.low} and {self.high}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        drift = trajectory_sums(log_ratios(now, batch), batch)
        ratio = saturated(drift).exp()
        advantage = trajectory_means(batch.occurrences.advantage.detach(), batch).to(ratio.dtype)
        counted = counted_lengths(batch) > 0
        value = clipped_surrogate(ratio, advantage, self.low, self.high)
        clipped = cut(ratio.detach(), advantage, self.low, self.high)
        weight = counted.to(ratio.dtype) / counted.sum().clamp(min=1)
        metrics = {"ratio/clipped": share(clipped, counted & (advantage != 0))}
        return Terms(torch.where(counted, value, 0.0), weight, Level.TRAJECTORY, metrics)


GDPO_DIFFUSION = DIFFU_GRPO.but(
    name="gdpo-diffusion",
    title="Group Diffusion Policy Optimisation of masked-diffusion language models",
    source="arXiv:2510.08554",
    catalogue_ids=("gdpo-diffusion",),
    axes=("policy", "objective", "rollout"),
    formula="L = -1/N sum_i min(s_i A_i, clip(s_i) A_i),  s_i = exp(B(y_i) - B_old(y_i)),  A_i = R_i - mean_g R,  "
    "B(y) = sum_n w_n/t_n sum_{k masked at t_n} log pi(y_k | y masked)",
    conventions={
        **LOOKED,
        **CENTRED,
        "Gauss points": "two, one mask at each",
        "1/|y|": "left out: all answers have equally many places, so it is a constant factor of the loss",
        "KL": "none; the paper's coefficient is small",
    },
    rollout=ElboFilling(samples=8, masks=GaussMasks(2)),
    shaping=(LookWeights(),),
    objective=SequenceSurrogate(),
    **{"credit.scale": None},
)
