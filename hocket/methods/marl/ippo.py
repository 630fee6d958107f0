"""IPPO: every agent runs its own PPO, and the others are its environment (de Witt et al., arXiv:2011.09533).

In joint play credit follows each agent by itself (`apart` of `hocket.core.joint`): advantages, targets and bootstraps
are the agent's own, from its own observations and rewards. Agents share one network, told apart by a one-hot number;
`--cast separate` gives each its own. To PPO a bonus for entropy is added; with one agent and without the bonus it is
PPO, step for step. The clip of the ratio is what keeps the others' change, and so the environment's, small.
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
    formula="for every agent:  L = -mean_t min(r_t A_t, clip(r_t) A_t) + 1/2 mean_t (V_t - y_t)^2 - 0.01 mean_t H_t,  "
    "A_t = GAE of its own values V(o) and rewards",
    conventions={
        **PPO.conventions,
        "agents": "share one network and are told apart by a one-hot number after what they see; mini-batches mix them",
        "whitening": "over the decisions of all agents of a batch, ddof 1, epsilon 1e-8",
        "rewards": "each agent's own, as the environment pays it; a team's reward is everybody's there",
        "history": "what an agent sees now; the paper's networks have recurrent layers for StarCraft",
        "clipping side": "of ratios both, 0.2; values are not clipped: a range of 0.2 suits the paper's rewards, which "
        "are scaled to a return of 20 at most, and holds back critics of returns of any other size",
        "entropy": "bonus 0.01",
        "world": "particle worlds, foraging and matrix games stand in for StarCraft, whose binary cannot be run here",
    },
    task="mpe:spread",
    regularisers=(ValueLoss(coefficient=0.5, aggregate="token-mean"), EntropyBonus(coefficient=0.01)),
)
