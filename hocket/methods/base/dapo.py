"""DAPO: GRPO with four repairs for long reasoning (Yu et al., arXiv:2503.14476).

Groups without signal are asked again (`DynamicSampling` of `hocket.rollout.dynamic`), the clip leaves more room above
than below, every decision of the batch weighs the same, and answers near the length limit lose reward softly
(`OverlongPenalty` of `hocket.rewards.shaping`). No KL.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON
from hocket.rewards.shaping import OverlongPenalty
from hocket.rollout.dynamic import DynamicSampling

DAPO = GRPO.but(
    name="dapo",
    title="Decoupled Clip and Dynamic Sampling Policy Optimisation",
    source="Yu et al., arXiv:2503.14476",
    formula="A_i = (R_i - mean_g R)/(std_g R + eps),  L = -1/sum_i n_i sum_i sum_t min(r A, clip(r, 1-0.2, 1+0.28) A)",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over all decisions of the batch",
        "clipping side": "0.2 below, 0.28 above",
        "KL": "none, as in the paper",
        "constant group": "discarded and asked again, at most 3 rounds",
        "truncated samples": f"soft penalty over the last fifth before shaping.0.limit = {HORIZON} decisions, -1 at it",
    },
    rollout=DynamicSampling(samples=8, max_rounds=3),
    shaping=(OverlongPenalty(limit=HORIZON, buffer=HORIZON // 5, penalty=1.0),),
    **{"objective.high": 0.28, "objective.aggregate": "token-mean"},
)
