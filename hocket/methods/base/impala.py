"""IMPALA: an actor-critic for experience that is some updates old (Espeholt et al., arXiv:1802.01561).

Actors fall behind the learner. V-trace (`VTrace` of `hocket.credit.vtrace`) weighs each difference by how much likelier
the learner makes the action, at most 1, and lets differences reach back as far as the ratios, at most 1, allow. One
update per batch, so the loss is the plain policy gradient.
"""

from __future__ import annotations

from hocket.credit.vtrace import VTrace
from hocket.methods.base.conventions import COMMON
from hocket.methods.base.ppo import PPO
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.value import ValueLoss
from hocket.update.gradient import GradientStep

IMPALA = PPO.but(
    name="impala",
    title="Importance-weighted actor-learner, V-trace",
    source="Espeholt et al., arXiv:1802.01561",
    formula="L = -mean_t rho_t (r_t + gamma v_{t+1} - V_t) log pi_t + 1/2 mean_t (V_t - v_t)^2 - 0.01 mean_t H_t,  "
    "rho = min(1, pi/mu),  v as V-trace",
    conventions={
        **COMMON,
        "old policy": "mu is the one that sampled, pi the learner's before the update; both are recorded",
        "aggregation": "mean over all decisions of the batch; the paper sums",
        "whitening": "none",
        "bounds": "rho and c at most 1, credit.rho and credit.c",
        "discount": "0.99 per decision",
        "traces": "credit.lam = 1, the paper's; below it the advantage still looks ahead to v_{t+1}, where rlax takes "
        "lam v_{t+1} + (1 - lam) V_{t+1}",
        "entropy": "bonus 0.01; the paper's is found by search, from 5e-5 to 0.01",
        "truncated samples": PPO.conventions["truncated samples"],
    },
    note="on experience of the policy as it is all ratios are 1, and it is advantage actor-critic; --overlap 1 makes "
    "it one update old",
    credit=VTrace(),
    objective=PolicyGradient(aggregate="token-mean"),
    regularisers=(ValueLoss(coefficient=0.5, aggregate="token-mean"), EntropyBonus(coefficient=0.01)),
    update=GradientStep(),
)
