"""REINFORCE++: PPO's clipped loss without a critic, normalised over the batch (Hu et al., arXiv:2501.03262).

One sample per prompt; the return, less a KL penalty per token (`KLInReward`), is whitened over all decisions of the
batch rather than within a group (`ReturnToGo`). The variant with a baseline centres by group and divides by the batch's
deviation (`GroupRelative` with `scale_by`).
"""

from __future__ import annotations

from hocket.core.batch import GroupBy
from hocket.credit.group import GroupRelative
from hocket.credit.reinforce import ReturnToGo
from hocket.methods.base.conventions import GROUP, RATIO
from hocket.objectives.divergence import KLToReference
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.recipe import Recipe
from hocket.rewards.shaping import KLInReward
from hocket.rollout.independent import Independent

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
        "whitening": "the deviation is over the batch's trajectories, ddof 1; the authors' code, verl and NeMo-RL take "
        "mean and deviation over tokens: credit = WhitenedTokens(of=GroupRelative(scale=None))",
        "clipping side": "both, 0.2",
        "KL": "k2 in the loss, as the paper has it; coefficient 0.001 is our choice",
    },
    rollout=Independent(samples=8),
    shaping=(),
    credit=GroupRelative(by=GroupBy("scenario"), scale="std", scale_by=GroupBy()),
    regularisers=(KLToReference("k2", coefficient=0.001, aggregate="token-mean"),),
)
