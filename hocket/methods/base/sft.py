"""Supervised fine-tuning: maximum likelihood of demonstrations (as in Ouyang et al., arXiv:2203.02155, section 3.5).

The answers are given, not sampled (`Demonstrations` of `hocket.rollout.demonstrations`), every token of one counts the
same (`Uniform`), and the loss is `NegativeLogLikelihood` of `hocket.objectives.likelihood`.
"""

from __future__ import annotations

from hocket.credit.reinforce import Uniform
from hocket.methods.base.conventions import COMMON
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.recipe import Recipe
from hocket.rollout.demonstrations import Demonstrations

SFT = Recipe(
    name="sft",
    title="Supervised fine-tuning",
    source="maximum likelihood; for instruction data Ouyang et al., arXiv:2203.02155, section 3.5",
    family="supervised",
    axes=("objective",),
    formula="L = -1/sum_i n_i sum_i sum_t log pi(a_it | s_it)",
    conventions={
        **COMMON,
        "aggregation": "mean over all decisions of the batch; prompts are not decisions",
        "advantages": "not read",
        "temperature": "log-probs at the decoding's temperature, 1 unless set",
    },
    rollout=Demonstrations(),
    credit=Uniform(),
    objective=NegativeLogLikelihood(aggregate="token-mean"),
)
