"""IPPO: every agent runs its own PPO, and the others are its environment (de Witt et al., arXiv:2011.09533).

In joint play credit follows each agent by itself (`apart` of `hocket.core.joint`): advantages, targets and bootstraps
are the agent's own, from its own observations and rewards. Agents share one network, told apart by a one-hot number;
`--set cast=separate` gives each its own. What is added to PPO is what the paper found to matter or used throughout:
values are clipped as ratios are, and entropy has a bonus. With one agent and both taken away it is PPO, step for step.
"""

from __future__ import annotations

from hocket.methods.base.ppo import PPO
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.value import ValueLoss

IPPO = PPO.but(
    name="ippo",
    title="Independent PPO",
    source="de Witt et al., arXiv:2011.09533",
    catalogue_ids=("ippo",),
    family="multi-agent",
    axes=("team", "objective"),
    formula="for every agent:  L = -mean_t min(r_t A_t, clip(r_t) A_t) + 1/2 mean_t max((V - y)^2, (clip(V) - y)^2) "
    "- 0.01 mean_t H_t,  A_t = GAE of its own values V(o) and rewards",
    conventions={
        **PPO.conventions,
        "agents": "share one network and are told apart by a one-hot number after what they see; mini-batches mix them",
        "whitening": "over the decisions of all agents of a batch, ddof 1, epsilon 1e-8",
        "rewards": "each agent's own, as the environment pays it; a team's reward is everybody's there",
        "history": "what an agent sees now; the paper's networks have recurrent layers for StarCraft",
        "clipping side": "ratios and values, both 0.2; the paper's range is the same for both",
        "entropy": "bonus 0.01",
        "world": "particle worlds, foraging and matrix games stand in for StarCraft, whose binary cannot be run here",
    },
    task="mpe:spread",
    regularisers=(ValueLoss(coefficient=0.5, clip=0.2, aggregate="token-mean"), EntropyBonus(coefficient=0.01)),
)
