"""Dr. GRPO, GRPO done right: GRPO without its two divisions (Liu et al., arXiv:2503.20783).

Advantages are not divided by the group's deviation, which favours scenarios that are nearly always right or wrong, nor
losses by each answer's own length, which spares long wrong answers; a constant divides instead. Two settings of GRPO's
own stages, no new piece.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON

DR_GRPO = GRPO.but(
    name="dr-grpo",
    title="GRPO done right",
    source="Liu et al., Understanding R1-Zero-Like Training, arXiv:2503.20783",
    catalogue_ids=("dr-grpo",),
    formula="A_i = R_i - mean_g R,  L = -1/N sum_i 1/L sum_t min(r_it A_i, clip(r_it) A_i)",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "no deviation is taken",
        "epsilon": "none",
        "aggregation": f"sum over decisions / (N L), L = objective.horizon = {HORIZON}, never the batch's own width",
    },
    **{"credit.scale": None, "objective.aggregate": "constant-length", "objective.horizon": HORIZON},
)
