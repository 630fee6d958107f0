"""SAC: an actor that maximises value and entropy, with two critics (Haarnoja et al., arXiv:1801.01290, 1812.05905).

`SoftValues` of `hocket.policies.action_values` is the policy: a squashed Gaussian, two critics with slow copies, and a
temperature that is trained towards an entropy. `Transitions` keeps every decision, and each of a step is followed by a
gradient on rows drawn from all of them.
"""

from __future__ import annotations

from hocket.credit.reinforce import Uniform
from hocket.methods.base.conventions import STORED
from hocket.objectives.action_values import CriticLoss, PathwiseLoss, TemperatureLoss
from hocket.policies.action_values import SoftValues
from hocket.recipe import Recipe
from hocket.rollout.transitions import Transitions
from hocket.update.following import FollowingStep

SAC = Recipe(
    name="sac",
    title="Soft actor-critic",
    source="Haarnoja et al., arXiv:1801.01290; the learnt temperature arXiv:1812.05905",
    family="actor-critic",
    axes=("objective", "policy", "data"),
    formula="L = 1/2 sum_k (Q_k(s, a) - y)^2 + alpha log pi(a'|s) - min_k Q_k(s, a') - log alpha (log pi(a'|s) + H),  "
    "y = r + gamma (min_k Q-_k(s', a'') - alpha log pi(a''|s')),  a' ~ pi(s), a'' ~ pi(s'),  H = -dim(a),  "
    "Q- <- Q- + tau (Q - Q-)",
    conventions={
        **STORED,
        "slow copies": "of the critics, tau 0.005, after every gradient",
        "temperature": "1 at first; its logarithm is trained, as in the authors' code",
        "critics": "2; the smaller value counts",
    },
    task="gym:Pendulum-v1",
    store=Transitions(),
    credit=Uniform(),
    objective=CriticLoss(SoftValues()),
    regularisers=(PathwiseLoss(), TemperatureLoss()),
    update=FollowingStep(lr=3e-4, clip_norm=None),
)
