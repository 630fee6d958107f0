"""TempSamp-R1: GRPO with an expert's answer in each group and rewards bent so that it does not rule (arXiv:2509.18056).

`WithExpert` of `hocket.rollout.experts` adds the answer or demonstration; `AsymmetricCurve` compresses rewards above a
threshold and spreads those below before they are normalised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.signals import returns
from hocket.methods.base.grpo import GRPO
from hocket.rewards.members import with_return
from hocket.rollout.experts import WithExpert
from hocket.stages import Shaping


def asymmetric_curve(reward: Tensor, threshold: float, above: float, below: float) -> Tensor:
    """`t + a log(1 + r - t)` where r > t, else `t - (exp(b (t - r)) - 1) / (exp(b) - 1)`; same shape.

    Continuous and increasing, t at t. Its slope is `a / (1 + r - t)` above, so at most a, and
    `b exp(b (t - r)) / (exp(b) - 1)` below, so largest for the worst rewards.
    """
    high = threshold + above * torch.log1p((reward - threshold).clamp(min=0.0))
    low = threshold - torch.expm1(below * (threshold - reward).clamp(min=0.0)) / math.expm1(below)
    return torch.where(reward > threshold, high, low)


@dataclass(frozen=True)
class AsymmetricCurve(Shaping):
    """Compresses returns above a threshold and spreads those below: TempSamp-R1 (arXiv 2509.18056).

    The return becomes `asymmetric_curve` of it. So a perfect expert in a group no longer draws the
    mean above every sample of the policy. The constants are chosen here: the paper's could not be confirmed.

    Attributes:
        threshold: t. above: a > 0. below: b > 0.
    """

    threshold: float = 0.8
    above: float = 0.01
    below: float = 1.0

    def __post_init__(self) -> None:
        if self.above <= 0 or not 0 < self.below <= 50:
            raise ValueError("above must be positive and below must lie in (0, 50]")

    def __call__(self, batch: Batch) -> Batch:
        return with_return(batch, asymmetric_curve(returns(batch), self.threshold, self.above, self.below))


TEMPSAMP_R1 = GRPO.but(
    name="tempsamp-r1",
    title="An expert among the samples, rewards reshaped asymmetrically",
    source="TempSamp-R1, arXiv:2509.18056",
    catalogue_ids=("tempsamp-r1",),
    axes=("rollout", "credit", "policy"),
    formula="group = G - 1 samples and 1 expert; r' = t + a log(1 + r - t) above t, "
    "t - (e^{b(t - r)} - 1)/(e^b - 1) below; then A_i as in GRPO",
    conventions={
        **GRPO.conventions,
        "curve": "t = 0.8, a = 0.01, b = 1 (shaping.0), chosen here: the paper's constants could not be confirmed",
        "expert": "metadata['demonstration'] or the answer as text; rollout.experts = 1 of rollout.samples = 8",
        "expert's ratio": "its behaviour log-probs are the learner's own before the update: ratio 1",
        "no expert known": "all samples are the policy's",
        "reward": "the task's own; IoU for intervals by rewards of temporal-r1",
    },
    note="shown on intervals in text; the training with and without a chain of thought is left to the task's prompts",
    task="worked-sums?form=0.2",
    rollout=WithExpert(samples=8),
    shaping=(AsymmetricCurve(),),
)
