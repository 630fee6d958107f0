"""Stable GRPO: advantages shrunk where a group's outcome may be label noise (arXiv:2508.05928).

`NoiseAware` multiplies each group's advantages by the correlation of noisy and true rewards that its success rate
implies, so that a group with one odd label counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.credit.weights import Compared, Weight
from hocket.methods.base.grpo import GRPO


def noise_weight(observed: Tensor, flip: float, epsilon: float) -> Tensor:
    """`(1-2p) t(1-t) / (sqrt(q(1-q)+e) sqrt(t(1-t)+e))`, `t = clip((q-p)/(1-2p), 0, 1)`; same shape as q.

    q is the observed share of successes, p the probability that a label is flipped, t the share of true successes that
    q suggests. It is the correlation of a noisy and a true label, hence the least-squares factor from the noisy
    standardised advantage to the clean one (S-GRPO, arXiv 2508.05928; e keeps the roots from 0).
    """
    true = ((observed - flip) / (1 - 2 * flip)).clamp(0.0, 1.0)
    noisy_variance, true_variance = observed * (1 - observed), true * (1 - true)
    return (1 - 2 * flip) * true_variance / ((noisy_variance + epsilon).sqrt() * (true_variance + epsilon).sqrt())


@dataclass(frozen=True)
class NoiseAware(Weight):
    """The weight of S-GRPO for rewards that are flipped with symmetric probability `flip`; see `noise_weight`.

    Attributes:
        flip: probability that a label is wrong, in [0, 0.5). epsilon: inside both roots.
        success: a member counts as right when its return exceeds this; None is halfway between the lowest and the
            highest return of the batch.
    """

    flip: float = 0.1
    epsilon: float = 1e-8
    success: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.flip < 0.5:
            raise ValueError(f"flip must lie in [0, 0.5), not {self.flip}: at one half labels say nothing")
        if self.epsilon < 0:
            raise ValueError(f"epsilon must be at least 0, not {self.epsilon}")

    def __call__(self, seen: Compared) -> Tensor:
        weight = noise_weight(seen.accuracy(self.success), self.flip, self.epsilon)
        return torch.nan_to_num(weight)  # Without epsilon an unmixed group divides 0 by 0.


S_GRPO_NOISE = GRPO.but(
    name="s-grpo-noise",
    title="Stable GRPO: noise-aware advantages",
    source="Mitigating Think-Answer Mismatch in LLM Reasoning, arXiv:2508.05928",
    catalogue_ids=("s-grpo-noise",),
    formula="A_i' = w A_i,  w = (1-2p) t(1-t)/(sqrt(q(1-q)+e) sqrt(t(1-t)+e)),  t = clip((q-p)/(1-2p), 0, 1)",
    conventions={
        **GRPO.conventions,
        "noise": "labels are flipped with probability credit.weigh.0.flip = 0.15 (the paper's); q is the "
        "share of returns above halfway between the batch's lowest and highest",
        "success": "the released code counts returns above 0; the same for verdicts of 0 and 1",
        "loss": "GRPO's, a mean over a sample's decisions; the released code divides their sum by the longest "
        "response, as Dr. GRPO does",
        "truncated samples": "kept, with the reward they got; the released code gives them 0",
        "epsilon": GRPO.conventions["epsilon"] + "; e = 1e-8 inside the roots of w",
    },
    **{"credit.weigh": (NoiseAware(flip=0.15),)},
)
