"""GCPO: where all samples fail, a reference answer takes the place of one (When Contrast Fails, Go Gold, 2510.07790).

A group without a success has no contrast and no gradient. Then the reference (`Reference` of `hocket.rollout.rescue`)
replaces one sample, so that the group holds one right answer among wrong ones; all other groups are GRPO's. The ratio
is the sequence's. Nothing is known of the probability that somebody wrote the reference with: it is taken to be the
policy's own at the beginning of the step, so that the first ratio is 1.
"""

from __future__ import annotations

from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.rollout.rescue import Reference, Rescued

GCPO_GOLD = GRPO.but(
    name="gcpo-gold",
    title="Group contrastive policy optimisation with reference answers",
    source="When Contrast Fails, Go Gold, arXiv:2510.07790",
    family="data-and-rollout",
    catalogue_ids=("gcpo-gold",),
    axes=("data", "rollout", "credit"),
    formula="if max_g R < success: one y_i <- y*;  A_i = (R_i - mean_g R)/(std_g R + eps),  s_i = (pi/pi_old)^(1/n_i)",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "0: the sum of squares is divided by G, a reference among failures has sqrt(G - 1)",
        "reference": "metadata['demonstration'], else the answer as text; it replaces the group's first sample",
        "reference's ratio": "its behaviour log-probs are the learner's own before the update: ratio 1; chosen here",
        "ratio": "of the sequence, as in GSPO; no KL",
    },
    task="worked-sums",
    requires=(Requirement.DEMONSTRATIONS,),
    rollout=Rescued(ladder=(Reference(),), samples=8),
    **{"credit.ddof": 0, "objective.ratio": "sequence"},
)
