"""PPO: several clipped steps on one batch, with a learnt value (Schulman et al., arXiv:1707.06347).

Advantages come from a critic (`GAE` of `hocket.credit.gae`, arXiv:1506.02438), the critic is fitted beside
(`ValueLoss`), and the clipped ratio (`ClippedSurrogate`) lets a batch serve 4 epochs of 4 mini-batches. `ppo-rlhf`
takes a KL penalty from the reward of each token (`KLInReward`).
"""

from __future__ import annotations

from hocket.credit.gae import GAE
from hocket.methods.base.conventions import RATIO
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.objectives.value import ValueLoss
from hocket.recipe import Recipe
from hocket.rewards.shaping import KLInReward
from hocket.update.gradient import GradientStep

PPO = Recipe(
    name="ppo",
    title="Proximal Policy Optimisation",
    source="Schulman et al., arXiv:1707.06347; GAE arXiv:1506.02438",
    family="actor-critic",
    axes=("credit", "objective"),
    formula="L = -mean_t min(r_t A_t, clip(r_t) A_t) + 1/2 mean_t (V_t - y_t)^2,  A = GAE(gamma, lam),  y = A + V",
    conventions={
        **RATIO,
        "aggregation": "mean over all decisions of the batch",
        "whitening": "advantages over the batch's decisions, ddof 1, epsilon 1e-8, before mini-batches are cut",
        "clipping side": "both, 0.2; values are not clipped",
        "truncated samples": "the value of the final state is bootstrapped",
        "entropy": "no bonus (the paper's choice for continuous control)",
        "updates per batch": "4 epochs of 4 mini-batches",
    },
    credit=GAE(gamma=1.0, lam=0.95, whiten=True),
    objective=ClippedSurrogate(low=0.2, high=0.2, aggregate="token-mean"),
    regularisers=(ValueLoss(coefficient=0.5, aggregate="token-mean"),),
    update=GradientStep(epochs=4, minibatches=4),
)


PPO_RLHF = PPO.but(
    name="ppo-rlhf",
    title="PPO with a KL penalty in the reward",
    source="Ouyang et al., InstructGPT, arXiv:2203.02155",
    formula=PPO.formula + ",  r_t = score at the end - beta log(pi_t/ref_t)",
    conventions={
        **PPO.conventions,
        "KL": "k1 in the reward at every decision not imposed, coefficient 0.02 (the paper's)",
    },
    shaping=(KLInReward(coefficient=0.02, estimator="k1"),),
)
