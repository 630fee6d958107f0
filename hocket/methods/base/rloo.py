"""RLOO: REINFORCE whose baseline is the mean of the other samples (Ahmadian et al., arXiv:2402.14740).

A sample never enters its own baseline (Kool et al. 2019), so the gradient is unbiased, and the whole answer is one
action: no ratio, no clip, no division by deviation or length. `GroupRelative` of `hocket.credit.group` with
`leave_one_out`.
"""

from __future__ import annotations

from hocket.core.batch import GroupBy
from hocket.credit.group import GroupRelative
from hocket.methods.base.conventions import COMMON
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent

RLOO = Recipe(
    name="rloo",
    title="REINFORCE Leave-One-Out",
    source="Ahmadian et al., Back to Basics, arXiv:2402.14740; Kool et al. 2019",
    family="policy-gradient",
    axes=("credit",),
    formula="L = -1/N sum_i sum_t A_i log pi(a_it | s_it),  A_i = R_i - 1/(G-1) sum_{j != i} R_j",
    conventions={
        **COMMON,
        "aggregation": "sum over a trajectory's decisions (the trajectory is one action), mean over trajectories",
        "group of one": "advantage 0",
        "constant group": "advantage 0",
        "KL": "left out; the paper subtracts beta log(pi/ref) from the reward: shaping = KLInReward(beta, 'k1')",
    },
    rollout=Independent(samples=8),
    credit=GroupRelative(by=GroupBy("scenario"), scale=None, leave_one_out=True),
    objective=PolicyGradient(aggregate="sequence-sum"),
)
