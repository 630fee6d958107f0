"""DMPO: a masked-diffusion language model is fitted to the reward-tilted base (Zhu et al., arXiv:2510.08233).

Policy gradients seek one mode. DMPO minimises the cross-entropy from p*(x) ~ p_ref(x) exp(r(x) / alpha), which keeps
all modes in their ratio: samples of the present policy get importance weights towards p*, by their ELBOs, and the loss
is the weighted denoising cross-entropy. As all weights of few samples are positive, a baseline is subtracted. The paper
names three. Of these the mean weight 1/G alone leaves the minimum where it is; with the weights at -r, or those of the
likelihood ratio, the expected update does not depend on the policy, and a mode is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.columns import Column
from hocket.core.elbo_masks import ComplementaryMasks
from hocket.core.signals import returns
from hocket.methods.base.diffu_grpo import DIFFU_GRPO
from hocket.methods.generative.gdpo_diffusion import LOOKED
from hocket.objectives.aggregate import counted_lengths, trajectory_sums
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.ratios import recorded
from hocket.rewards.look_weights import LookWeights
from hocket.rollout.elbo_filling import ElboFilling
from hocket.stages import Credit

Baseline = Literal["opposite", "mean", "ratio", "none"]


@dataclass(frozen=True)
class TiltedWeights(Credit):
    """`A_i = G (w_i - b_i)` with `w = softmax_g(log p_ref - log p_old + R / temperature)`, G the group's size.

    Log-probs are weighted sums over a trajectory's decisions. With a policy gradient by sums, the loss is a
    cross-entropy weighted by w - b, summed over a group and averaged over groups. Trajectories whose weights are all 0
    enter no group and get 0.

    Attributes:
        temperature: alpha of the tilted base exp(R / alpha).
        baseline: b. `mean`: 1/G, with the same expected gradient at the policy that sampled; `opposite`: the softmax
            at -R; `ratio`: the softmax of the log-ratio alone; `none`: 0.
    """

    temperature: float = 0.1
    baseline: Baseline = "mean"

    least_samples: ClassVar[int] = 2
    reads: ClassVar[frozenset[Column]] = frozenset({Column.REFERENCE, Column.BEHAVIOUR})

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueError(f"temperature must be positive, not {self.temperature}")
        if self.baseline not in get_args(Baseline):
            raise ValueError(f"baseline is {self.baseline!r}; choose from {', '.join(get_args(Baseline))}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        occurrences, tilt = batch.occurrences, returns(batch) / self.temperature
        gap = (recorded(batch, "reference").double() - recorded(batch, "behaviour").double())[occurrences.decision]
        drift, counted = trajectory_sums(gap, batch), counted_lengths(batch) > 0
        groups = GroupBy("scenario")(batch)
        advantage = torch.zeros(batch.trajectories, dtype=torch.float64)
        for group in range(groups.size):
            members = torch.nonzero(counted & (groups.index == group)).flatten()
            weight = torch.softmax(drift[members] + tilt[members], 0) - self._baseline(drift[members], tilt[members])
            advantage[members] = len(members) * weight
        return replace(occurrences, advantage=advantage[occurrences.trajectory])

    def _baseline(self, drift: Tensor, tilt: Tensor) -> Tensor:
        if self.baseline == "opposite":
            return torch.softmax(drift - tilt, 0)
        if self.baseline == "ratio":
            return torch.softmax(drift, 0)
        return torch.full_like(drift, 1 / max(1, len(drift)) if self.baseline == "mean" else 0.0)


DMPO_DLLM = DIFFU_GRPO.but(
    name="dmpo-dllm",
    title="Distribution Matching Policy Optimisation of masked-diffusion language models",
    source="Zhu et al., arXiv:2510.08233; code of yuchen-zhu-zyc/DMPO",
    catalogue_ids=("dmpo-dllm",),
    axes=("objective", "policy"),
    formula="L = mean_g sum_i (w_i - 1/G) (-B(y_i)),  w = softmax_g(B_ref - B_old + R/alpha),  "
    "B(y) = 1/2 sum over a mask and its complement of L/m sum log pi(y_k)",
    conventions={
        **LOOKED,
        "alpha": "0.1",
        "masks": LOOKED["masks"] + "; one complementary pair, m even in 1..L; the same for weights and loss",
        "scale": "the release's mean over masked tokens is this loss over the number of places",
        "group of one": "weight 1 less 1, so 0",
        "constant group": "drawn to the base, by its likelihood ratio; advantage 0 with credit.baseline = opposite",
        "baseline": "the mean weight; the release's is the softmax at -R (credit.baseline = opposite), with which one "
        "mode is lost",
        "clip": "none",
        "KL": "in the target",
    },
    rollout=ElboFilling(samples=8, masks=ComplementaryMasks(1)),
    shaping=(LookWeights(),),
    credit=TiltedWeights(),
    objective=PolicyGradient(aggregate="sequence-sum"),
)
