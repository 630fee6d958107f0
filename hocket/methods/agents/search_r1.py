"""Search-R1: GRPO over responses that search as they go (Jin et al., arXiv:2503.09516).

A response runs until it closes a search; what is found is put into it, and it runs on (`SearchWithin` of
`hocket.agents.workflows.inline_search`). What was found stands in the response as imposed decisions: context of weight
0, in no ratio, no denominator and no KL. The only reward is whether the last answer equals the known one once both are
normalised (`NormalisedMatch` of `hocket.rewards.normalised_match`).
"""

from __future__ import annotations

from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO_KL
from hocket.objectives.divergence import KLToReference
from hocket.rewards.normalised_match import NormalisedMatch

SEARCH_R1 = GRPO_KL.but(
    name="search-r1",
    title="Search-R1: searches within a response, what they find masked from the loss",
    source="Jin et al., Search-R1, arXiv:2503.09516",
    family="agents",
    catalogue_ids=("search-r1",),
    axes=("environment", "objective", "reward", "rollout"),
    formula="L = -1/N sum_i 1/sum_t I_it sum_t I_it (min(r_it A_i, clip(r_it) A_i) - beta k3_it),  I_it = 0 for what a "
    "search found, else 1;  R_i = [answer equals the known one]",
    conventions={
        **GRPO_KL.conventions,
        "KL": "k3 in the loss on the same decisions, coefficient 0.001",
        "retrieved tokens": "imposed decisions of weight 0: in no ratio, no denominator and no KL",
        "exact match": "lower case, without punctuation and articles",
        "neither a search nor an answer": "ends the response; the paper asks to think again",
        "algorithm": "GRPO; the paper has PPO besides",
        "start": "the paper starts from chat models, which search when told to; the shipped base needs a phase of "
        "sft on demonstrations first (task lookup?tags=true)",
    },
    task="lookup?tags=true",
    requires=(Requirement.TOOLS,),
    workflow="search-within",
    rewards=(NormalisedMatch(),),
    regularisers=(KLToReference("k3", coefficient=0.001, aggregate="sequence-mean"),),
)
