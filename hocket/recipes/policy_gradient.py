"""REINFORCE and its baselines: the score function times a centred return, no critic."""

from __future__ import annotations

from hocket.credit import GreedyBaseline, GroupRelative, ReturnToGo, RunningMean
from hocket.objectives import ClippedSurrogate, KLToReference, PolicyGradient
from hocket.recipe import Recipe
from hocket.recipes.conventions import COMMON, GROUP, RATIO
from hocket.rewards import KLInReward
from hocket.rollout import Independent, WithGreedyBaseline
from hocket.types import GroupBy

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

REINFORCE_PLUS_PLUS = Recipe(
    name="reinforce++",
    title="REINFORCE++",
    source="Hu et al., arXiv:2501.03262",
    family="policy-gradient",
    axes=("credit", "objective"),
    formula="A_t = whiten_batch(R - beta sum_{k >= t} log(pi_k/ref_k)),  L = -mean_t min(r_t A_t, clip(r_t) A_t)",
    conventions={
        **RATIO,
        "aggregation": "mean over all decisions of the batch",
        "whitening": "mean and deviation over the batch's decisions, ddof 1, epsilon 1e-8",
        "clipping side": "both, 0.2",
        "KL": "k1 in the reward at every decision, coefficient 0.01 (the paper's code; the text leaves it open)",
    },
    rollout=Independent(samples=1),
    shaping=(KLInReward(coefficient=0.01, estimator="k1"),),
    credit=ReturnToGo(gamma=1.0, whiten=True),
    objective=ClippedSurrogate(low=0.2, high=0.2, aggregate="token-mean"),
)

REINFORCE_PLUS_PLUS_BASELINE = REINFORCE_PLUS_PLUS.but(
    name="reinforce++-baseline",
    title="REINFORCE++ with group means and batch deviation",
    formula="A_i = (R_i - mean_group R) / std_batch(R - mean_group R),  L = -mean_t min(r_t A, clip(r_t) A) + beta k2",
    conventions={
        **GROUP,
        "aggregation": "mean over all decisions of the batch",
        "whitening": "the deviation is over the batch's trajectories, ddof 1",
        "clipping side": "both, 0.2",
        "KL": "k2 in the loss, as the paper has it; coefficient 0.001 is our choice",
    },
    rollout=Independent(samples=8),
    shaping=(),
    credit=GroupRelative(by=GroupBy("scenario"), scale="std", scale_by=GroupBy()),
    regularisers=(KLToReference("k2", coefficient=0.001, aggregate="token-mean"),),
)
