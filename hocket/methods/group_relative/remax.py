"""ReMax: REINFORCE whose baseline is the reward of the greedy answer (Li et al., arXiv:2310.10505).

One greedy answer per scenario beside the sampled one takes the place of groups and critics and keeps the gradient
unbiased: `WithGreedyBaseline` of `hocket.rollout.baseline` draws it, `GreedyBaseline` of `hocket.credit.reinforce`
subtracts it.
"""

from __future__ import annotations

from hocket.credit.reinforce import GreedyBaseline
from hocket.methods.base.conventions import COMMON
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.recipe import Recipe
from hocket.rollout.baseline import WithGreedyBaseline

REMAX = Recipe(
    name="remax",
    title="ReMax: REINFORCE with the greedy answer as baseline",
    source="Li et al., arXiv:2310.10505",
    family="policy-gradient",
    catalogue_ids=("remax",),
    axes=("credit", "objective"),
    formula="L = -1/N sum_i sum_t (R_i - R_greedy(x_i)) log pi(a_it | s_it)",
    conventions={
        **COMMON,
        "aggregation": "sum over a trajectory's decisions, mean over trajectories",
        "baseline": "reward of one greedy answer per scenario, which is never learnt from",
        "missing baseline": "the scenario's trajectories are left out",
        "KL": "left out; the paper subtracts beta log(pi/ref) from the reward: shaping = KLInReward(beta, 'k1')",
    },
    rollout=WithGreedyBaseline(samples=1),
    credit=GreedyBaseline(),
    objective=PolicyGradient(aggregate="sequence-sum"),
)
