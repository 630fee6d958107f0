"""MAPPO: PPO for teams with a critic of the joint state (Yu et al., arXiv:2103.01955).

What acts sees its own observation; the critic, needed in training alone, reads the joint state of all agents beside it
(`CentralValueLoss` of `hocket.objectives.central`). All else is PPO's, with a bonus for entropy; agents share one
network and are told apart by a one-hot number.
"""

from __future__ import annotations

from hocket.methods.base.ppo import PPO
from hocket.objectives.central import CentralValueLoss
from hocket.objectives.entropy import EntropyBonus

MAPPO = PPO.but(
    name="mappo",
    title="Multi-agent PPO with a central critic",
    source="Yu et al., arXiv:2103.01955",
    family="multi-agent",
    axes=("team", "objective"),
    formula=PPO.formula + ",  V of the joint state and the agent's observation,  - 0.01 mean_t H_t",
    conventions={
        **PPO.conventions,
        "joint state": "what the environment offers, beside the agent's own observation (the paper's agent-specific "
        "global state, without pruning of what stands in both)",
        "agents": "share actor and critic, told apart by a one-hot number",
        "values": "neither normalised nor clipped, and the loss is a square, not Huber's",
        "entropy": "bonus 0.01, the paper's",
    },
    task="mpe:spread",
    regularisers=(CentralValueLoss(coefficient=0.5, aggregate="token-mean"), EntropyBonus(coefficient=0.01)),
)
