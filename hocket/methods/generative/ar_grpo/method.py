"""AR-GRPO: GRPO of an autoregressive generator of picture tokens (arXiv:2508.06924).

A picture is a sequence of tokens of a codebook, and every token is a decision, as in text. Ratio and KL are of the
distribution that was sampled from, which guidance has changed: the softmax of l_0 + s (l - l_0). Rewards judge the
finished picture in several respects, and their weighted sum is normalised within the group. As shipped, pictures of two
handwritten digits stand in for photographs, a judge of digits, the ink of strokes and the distance to real handwriting
for CLIP, measures of quality, and a language model that judges realism.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO_KL
from hocket.methods.generative.ar_grpo.task import Realism, RightDigits, RightStrokes
from hocket.objectives.divergence import KLToReference

AR_GRPO = GRPO_KL.but(
    name="ar-grpo",
    title="AR-GRPO: reinforcement learning of autoregressive image generation",
    source="arXiv:2508.06924; code of Kwai-Klear/AR-GRPO",
    catalogue_ids=("ar-grpo",),
    axes=("policy", "reward"),
    formula="A_i = (R_i - mean_g R)/(std_g R + eps),  R = digits + strokes/2 + realism/2,  "
    "L = -1/N sum_i 1/n sum_t min(r_it A_i, clip(r_it) A_i) + 0.01 k3,  pi = softmax(l_0 + s (l - l_0))",
    conventions={
        **GRPO_KL.conventions,
        "guidance": "1.5, a setting of decoding; in sampler, learner and reference",
        "rewards": "what is read, strokes and realism, with weights 1, 1/2, 1/2",
        "KL": "k3 in the loss, coefficient 0.01, at the guided distribution",
    },
    task="digit-tokens",
    rewards=(RightDigits(), RightStrokes(), Realism()),
    regularisers=(KLToReference("k3", coefficient=0.01, aggregate="sequence-mean"),),
)
