"""A2C: advantage actor-critic, one update every few decisions (Mnih et al., arXiv:1602.01783, its synchronous form).

The loss is the plain policy gradient (`PolicyGradient`) with advantages from a critic that is fitted beside it, and a
bonus for entropy. The paper's asynchronous workers are environments played side by side here, and `ShortBatches` learns
from every 5 decisions of theirs. Responses in words are learnt from whole.
"""

from __future__ import annotations

from hocket.credit.gae import GAE
from hocket.hooks.short_batches import ShortBatches
from hocket.methods.base.conventions import COMMON
from hocket.methods.base.ppo import PPO
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.value import ValueLoss
from hocket.update.gradient import GradientStep

A2C = PPO.but(
    name="a2c",
    title="Advantage actor-critic",
    source="Mnih et al., arXiv:1602.01783",
    formula="L = -mean_t A_t log pi_t + 1/2 mean_t (V_t - y_t)^2 - 0.01 mean_t H_t,  A = GAE(gamma, 1),  y = A + V",
    conventions={
        **COMMON,
        "aggregation": "mean over all decisions of the batch; the paper sums",
        "advantages": "returns to the end of the batch, its last state bootstrapped, minus V (credit.lam 1)",
        "batches": "5 decisions, the paper's, of 8 environments (hooks.0.length, hooks.0.width); responses in words "
        "and episodes of several agents, of networks with memory or under rewards for whole episodes, are one batch",
        "whitening": "none",
        "truncated samples": PPO.conventions["truncated samples"],
        "entropy": "bonus 0.01, the paper's",
        "optimiser": "AdamW; the paper's RMSProp with shared statistics is for asynchronous workers",
        "updates per batch": "1",
        "episodes": "a step plays all of its episodes to their ends",
    },
    credit=GAE(gamma=1.0, lam=1.0, whiten=False),
    objective=PolicyGradient(aggregate="token-mean"),
    regularisers=(ValueLoss(coefficient=0.5, aggregate="token-mean"), EntropyBonus(coefficient=0.01)),
    update=GradientStep(),
    hooks=(ShortBatches(),),
)
