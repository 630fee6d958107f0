"""Med-R1: GRPO on the right option and the tags, trained on one kind of picture or question and tested on all.

Lai et al., arXiv:2503.13939. The contribution is the study of what carries over, against supervised fine-tuning; the
recipe is GRPO with a KL term, accuracy and format.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO, GRPO_KL
from hocket.rewards.tags import TagFormat

MED_R1 = GRPO_KL.but(
    name="med-r1",
    title="Med-R1: rule-based GRPO that is tested on other kinds",
    source="Lai et al., Med-R1, arXiv:2503.13939 (recalled)",
    catalogue_ids=("med-r1",),
    axes=("policy", "reward", "analysis"),
    task="digits?kinds=count",
    formula="R = [right] + [tags],  A_i = (R_i - mean_g R)/(std_g R + eps),  clipped, KL k3 0.04",
    conventions={
        **GRPO.conventions,
        "KL": "k3 in the loss, coefficient 0.04",
        "tags": "shaping.0.weight = 1 for a filled thought and one answer in tags",
        "generalisation": "train on one kind of question, `hocket eval RUN --task digits` on all",
    },
    note="shown on kinds of question about handwriting; the paper has eight kinds of medical picture",
    shaping=(TagFormat(weight=1.0, thought="filled"),),
)
