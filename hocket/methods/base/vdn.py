"""VDN: the value of what a team does is the sum of its agents' action values (Sunehag et al., arXiv:1706.05296).

`SummedValues` of `hocket.policies.team_values` is the policy: one network of action values for all agents, acted on
epsilon-greedily, and a slow copy. Rows of the store are moments of the team (`JointTransitions`).
"""

from __future__ import annotations

from hocket.methods.base.conventions import STORED
from hocket.methods.base.dqn import DQN
from hocket.objectives.action_values import TeamCriticLoss
from hocket.policies.team_values import SummedValues
from hocket.rollout.joint_transitions import JointTransitions
from hocket.update.following import FollowingStep

VDN = DQN.but(
    name="vdn",
    title="Value decomposition networks",
    source="Sunehag et al., arXiv:1706.05296",
    family="multi-agent",
    axes=("team", "objective", "data"),
    formula="L = (sum_i Q(o_i, a_i) - y)^2,  y = r + gamma sum_i Q-(o'_i, argmax_b Q(o'_i, b)),  "
    "Q- <- Q every C gradients",
    conventions={
        **STORED,
        "rows": "moments of the whole team, drawn independently; r is the mean over agents",
        "agents": "share one network, with a one-hot number of each; the paper's has a memory, this one none",
        "agents that have ended": "count as value 0",
        "slow copies": "of the network, copied every 100 gradients",
        "exploration": "epsilon falls from 1 to 0.05 in a line over 20,000 decisions; log-probs are exact",
    },
    task="mpe:spread",
    store=JointTransitions(size=100_000, rows=64, begin=500),
    objective=TeamCriticLoss(SummedValues(over=20_000), coefficient=1.0),
    update=FollowingStep(lr=1e-3, clip_norm=10.0, rate=1.0, follow_every=100),
)
