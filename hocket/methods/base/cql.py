"""CQL: soft actor-critic on recorded decisions, whose critics are held down where there are none (arXiv:2006.04779).

`ConservativeValues` of `hocket.policies.action_values` is SAC's policy, with a soft maximum of its critics over
actions. `ConservativeLoss` lowers it and raises the values of recorded actions. The data are a file (`store.data`), and
nothing is sampled.
"""

from __future__ import annotations

from hocket.methods.base.bc import BC
from hocket.objectives.action_values import ConservativeLoss, CriticLoss, PathwiseLoss, TemperatureLoss
from hocket.policies.action_values import ConservativeValues
from hocket.rollout.transitions import Transitions
from hocket.update.following import FollowingStep
from hocket.update.parts import Pace

CQL = BC.but(
    name="cql",
    title="Conservative Q-learning",
    source="Kumar et al., arXiv:2006.04779",
    family="actor-critic",
    axes=("objective", "policy", "data"),
    formula="L = L_SAC + c sum_k (log sum_a' exp Q_k(s, a') - Q_k(s, a)),  (s, a, r, s') of the data; the sum over "
    "a' by uniform actions and those of pi(s) and pi(s'), divided by their densities",
    conventions={
        **BC.conventions,
        "slow copies": "of the critics, tau 0.005, after every gradient",
        "coefficient": "5, fixed, as in the authors' code; their Lagrangian form is left out",
        "backup": "counts the entropy, as SAC's; the authors' code does not",
        "samples": "10 of each kind; those of pi are constants",
    },
    task="gym:Pendulum-v1",
    store=Transitions(gradients_per_step=200, begin=1, noises=32),
    objective=CriticLoss(ConservativeValues()),
    regularisers=(PathwiseLoss(), TemperatureLoss(), ConservativeLoss()),
    update=FollowingStep(lr=3e-4, clip_norm=None, paces={"actor": Pace(lr=1e-4)}),
)
