"""CJ-GRPO: masked diffusion learnt along its own decoding (Yang et al., arXiv:2509.23924).

diffu-GRPO scores an answer by one look at a fully masked one, which is no state that decoding met. CJ-GRPO stores the
states in which tokens were committed, and the loss looks at those very states: here they are turns, and the clipped
surrogate means over a turn's tokens before it means over turns. Decoding needs few steps: every step commits twice as
many tokens as the one before (ASS), and an early end is held back (EOSER); both are settings of `MaskFilling`.
"""

from __future__ import annotations

from hocket.methods.base.diffu_grpo import MASKED
from hocket.methods.base.grpo import GRPO
from hocket.objectives.divergence import KLToReference
from hocket.rollout.mask_filling import MaskFilling

CJ_GRPO = GRPO.but(
    name="cj-grpo",
    title="Consistency-trajectory GRPO of masked-diffusion language models",
    source="Yang et al., arXiv:2509.23924; code of EOSER-ASS-RL",
    catalogue_ids=("cj-grpo",),
    axes=("policy", "rollout", "objective"),
    formula="L = 1/N sum_i 1/S sum_s 1/|U_s| sum_{k in U_s} [-min(r A_i, clip(r) A_i) + beta k3],  "
    "r = pi(x_k | x_s) / pi_old(x_k | x_s)",
    conventions={
        **MASKED,
        "aggregation": "mean over a step's tokens, then over steps, then over samples",
        "order": "of the distributions' own confidence, so that the product is the path's probability; the "
        "release's, of sampled tokens, is rollout.order = sampled",
        "KL": "k3 in the loss, coefficient 0.01, at the same states",
    },
    rollout=MaskFilling(samples=8, doubling=True, end_held=0.4),
    regularisers=(KLToReference("k3", coefficient=0.01, aggregate="sequence-turn-mean"),),
    **{"objective.aggregate": "sequence-turn-mean"},
)
