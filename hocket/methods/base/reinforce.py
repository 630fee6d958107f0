"""REINFORCE: the plain policy gradient (Williams 1992, doi:10.1007/BF00992696).

Each decision's log-prob is weighed by the reward that follows it (`ReturnToGo` of `hocket.credit.reinforce`, with
`PolicyGradient` of `hocket.objectives.policy_gradient`). `reinforce-baseline` subtracts the mean return of earlier
steps (`RunningMean`).
"""

from __future__ import annotations

from hocket.credit.reinforce import ReturnToGo, RunningMean
from hocket.methods.base.conventions import COMMON
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.recipe import Recipe

REINFORCE = Recipe(
    name="reinforce",
    title="REINFORCE",
    source="Williams 1992, doi:10.1007/BF00992696",
    family="policy-gradient",
    axes=("credit", "objective"),
    formula="L = -1/N sum_i sum_t G_it log pi(a_it | s_it),  G_it = sum_{k >= t} r_ik",
    conventions={
        **COMMON,
        "aggregation": "sum over a trajectory's decisions, mean over trajectories",
        "baseline": "none",
        "discount": "1 per decision",
    },
    credit=ReturnToGo(),
    objective=PolicyGradient(aggregate="sequence-sum"),
)


REINFORCE_BASELINE = REINFORCE.but(
    name="reinforce-baseline",
    title="REINFORCE with a running-mean baseline",
    formula="L = -1/N sum_i sum_t (R_i - b) log pi(a_it | s_it),  b = running mean of earlier steps' returns",
    conventions={**REINFORCE.conventions, "baseline": "earlier steps only, momentum 0.9; 0 in the first step"},
    credit=RunningMean(momentum=0.9),
)
