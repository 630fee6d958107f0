"""OThink-MR1 (GRPO-D): GRPO whose KL weight rises over the run (Liu et al., arXiv:2503.16081).

Explore first, stay near the reference later: the coefficient of `KLToReference` (`hocket.objectives.divergence`)
follows a schedule. No new piece.
"""

from __future__ import annotations

from hocket.core.schedules import Linear
from hocket.methods.base.grpo import GRPO_KL
from hocket.objectives.divergence import KLToReference

OTHINK_MR1 = GRPO_KL.but(
    name="othink-mr1",
    title="OThink-MR1: GRPO-D, a KL weight that rises",
    source="Liu et al., OThink-MR1: Stimulating multimodal generalized reasoning capabilities via dynamic "
    "reinforcement learning, arXiv:2503.16081",
    catalogue_ids=("othink-mr1",),
    formula="L = L_GRPO + beta(s) KL_k3,  beta(s) = beta_min + (beta_max - beta_min) s/S",
    conventions={
        **GRPO_KL.conventions,
        "KL": "k3 in the loss; coefficient from 0 to 0.04 in a straight line over the run (the shape is our choice)",
        "reward": "the task's own answer and format checks",
    },
    note="shown on text; its modality comes later",
    regularisers=(KLToReference("k3", coefficient=Linear(0.0, 0.04), aggregate="sequence-mean"),),
)
