"""IQL: values of recorded actions alone, which weigh their likelihood (Kostrikov et al., arXiv:2110.06169).

`ImplicitValues` of `hocket.policies.action_values` is the policy. V is fitted to an upper expectile of Q over the
recorded actions (`ExpectileLoss`), Q backs up V, and the actor imitates in proportion to `exp(beta (Q - V))`. No action
outside the data is ever evaluated. The data are a file (`store.data`), and nothing is sampled.
"""

from __future__ import annotations

from hocket.methods.base.bc import BC
from hocket.objectives.action_values import AdvantageWeightedLikelihood, CriticLoss, ExpectileLoss
from hocket.policies.action_values import ImplicitValues
from hocket.rollout.transitions import Transitions
from hocket.update.following import FollowingStep

IQL = BC.but(
    name="iql",
    title="Implicit Q-learning",
    source="Kostrikov et al., arXiv:2110.06169",
    family="actor-critic",
    axes=("objective", "policy", "data"),
    formula="L = sum_k (Q_k(s, a) - r - gamma V(s'))^2 + |tau - 1(Q- < V)| (Q-(s, a) - V(s))^2 "
    "- min(exp(beta (Q- - V)), 100) log pi(a|s),  Q- = min_k Q-_k,  (s, a, r, s') of the data",
    conventions={
        **BC.conventions,
        "slow copies": "of the critics, tau 0.005, after every gradient",
        "actor": "a Gaussian whose mean is within the range and whose deviation depends on the state; the authors' "
        "does not",
    },
    task="gym:Pendulum-v1",
    store=Transitions(gradients_per_step=500, begin=1),
    objective=CriticLoss(ImplicitValues(), coefficient=1.0),
    regularisers=(ExpectileLoss(), AdvantageWeightedLikelihood()),
    update=FollowingStep(lr=3e-4, clip_norm=None),
)
