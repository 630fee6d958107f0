"""QMIX: the value of what a team does rises with each agent's action value (Rashid et al., arXiv:1803.11485).

`MixedValues` of `hocket.policies.team_values` is the policy: VDN's, and a mixer whose weights are functions of the
joint state and never negative. So the agents' best actions are the team's, and the mixer is needed in training alone.
"""

from __future__ import annotations

from hocket.methods.base.vdn import VDN
from hocket.objectives.action_values import TeamCriticLoss
from hocket.policies.team_values import MixedValues

QMIX = VDN.but(
    name="qmix",
    title="QMIX: monotone mixtures of action values",
    source="Rashid et al., arXiv:1803.11485",
    formula="L = (f(Q(o_1, a_1), .., Q(o_n, a_n); s) - y)^2,  df / dQ_i >= 0,  "
    "y = r + gamma f-(Q-(o'_i, argmax_b Q(o'_i, b)); s')",
    conventions={
        **VDN.conventions,
        "mixer": "one hidden layer of 32 units with elu; linear hypernetworks of the joint state, and one hidden layer "
        "for the last bias, as in the paper; initial weights are orthogonal",
        "joint state": "what the environment offers, not scaled",
        "slow copies": "of network and mixer, copied every 100 gradients",
    },
    objective=TeamCriticLoss(MixedValues(over=20_000), coefficient=1.0),
)
