"""MM-Eureka: rule-based RL on pictures without supervised warm-up (Meng et al., arXiv:2503.07365).

Accuracy by rule and a small term for the tags, the mean of the other samples as baseline, PPO's clip and no KL. Groups
that are all right or all wrong are dropped and others sampled in their place (`DynamicSampling`).
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO, UNSCALED
from hocket.rewards.tags import TagFormat
from hocket.rollout.dynamic import DynamicSampling

MM_EUREKA = GRPO.but(
    name="mm-eureka",
    title="MM-Eureka: rule-based RL with a leave-one-out baseline on pictures",
    source="Meng et al., MM-Eureka, arXiv:2503.07365 (recalled)",
    catalogue_ids=("mm-eureka",),
    axes=("reward", "policy", "data"),
    task="digits",
    formula="A_i = R_i - 1/(G-1) sum_{j != i} R_j,  R = [right] + 0.5 [tags],  "
    "groups all right or all wrong are dropped,  L = -1/N sum_i 1/n_i sum_t min(r_it A_i, clip(r_it) A_i)",
    conventions={
        **UNSCALED,
        "format": "shaping.0.weight = 0.5 for a filled thought and one answer in tags; the weight is recalled",
        "constant group": "all verdicts equal: dropped and another scenario sampled, at most 3 rounds; by "
        "verdicts alone, so a group that differs in its tags alone is dropped too",
        "KL": "none",
    },
    rollout=DynamicSampling(samples=8, max_rounds=3),
    shaping=(TagFormat(weight=0.5, thought="filled"),),
    **{"credit.leave_one_out": True, "credit.scale": None},
)
