"""DDPG: a deterministic actor that climbs a learnt action value (Lillicrap et al., arXiv:1509.02971).

`DeterministicValues` of `hocket.policies.action_values` is the policy: an actor that acts with noise, a critic, and
slow copies of both. Every decision is kept (`Transitions`), and each of a step is followed by a gradient on drawn rows.
"""

from __future__ import annotations

from hocket.credit.reinforce import Uniform
from hocket.methods.base.conventions import STORED
from hocket.objectives.action_values import CriticLoss, PathwiseLoss
from hocket.policies.action_values import DeterministicValues
from hocket.recipe import Recipe
from hocket.rollout.transitions import Transitions
from hocket.update.following import FollowingStep

DDPG = Recipe(
    name="ddpg",
    title="Deep deterministic policy gradient",
    source="Lillicrap et al., arXiv:1509.02971",
    family="actor-critic",
    axes=("objective", "policy", "data"),
    formula="L = (Q(s, a) - y)^2 - Q(s, mu(s)),  y = r + gamma Q-(s', mu-(s')),  w- <- w- + tau (w - w-)",
    conventions={
        **STORED,
        "slow copies": "of actor and critic, tau 0.005, after every gradient",
        "exploration": "independent Gaussian noise of deviation 0.1, in units of half an action's range; the paper's "
        "is correlated in time. The first 100 decisions are uniform",
        "critics": "1",
    },
    task="gym:Pendulum-v1",
    store=Transitions(),
    credit=Uniform(),
    objective=CriticLoss(DeterministicValues(ensemble=1, smoothing=0.0), coefficient=1.0),
    regularisers=(PathwiseLoss(),),
    update=FollowingStep(lr=1e-3, clip_norm=None),
)
