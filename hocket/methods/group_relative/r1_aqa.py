"""R1-AQA: plain GRPO on questions about sounds with options, against supervised fine-tuning on the same items.

Li et al., arXiv:2503.11197. The contribution is the study: what RL gains over fine-tuning, and that a segment of
reasoning gave nothing clear. So a thought is allowed and not asked for; `shaping.0.thought = filled` asks for one.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO, GRPO_KL
from hocket.rewards.tags import TagFormat

R1_AQA = GRPO_KL.but(
    name="r1-aqa",
    title="R1-AQA: GRPO on questions about sounds",
    source="Li et al., Reinforcement Learning Outperforms Supervised Fine-Tuning: A Case Study on Audio Question "
    "Answering, arXiv:2503.11197 (recalled)",
    catalogue_ids=("r1-aqa",),
    axes=("policy", "reward", "analysis"),
    task="tones?kinds=highest",
    formula="R = [right] + [answer in tags],  A_i = (R_i - mean_g R)/(std_g R + eps),  clipped, KL k3 0.04",
    conventions={
        **GRPO.conventions,
        "KL": "k3 in the loss, coefficient 0.04",
        "tags": "shaping.0.weight = 1 for one answer in tags; a thought before it is optional",
        "reasoning": "shaping.0.thought = filled asks for a thought, the paper's other prompt",
    },
    note="shown on drawn recordings of tones, whose answers are seven notes; the paper has recordings of the world and "
    "options in the question; supervised fine-tuning on as many labels gained more",
    shaping=(TagFormat(weight=1.0, thought="optional"),),
)
