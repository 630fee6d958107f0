"""Multi-agent PPO that reaches the global optimum by local steps (Zhao et al., arXiv:2305.04819).

Agents decide in an order, each knowing what those before it chose: `pi_i(a_i | s, a_1..a_{i-1})`, in worlds with
`?sequenced=true` (`Sequenced` of `hocket.environments.joint.sequenced`). The multi-agent performance difference then
splits into one term per agent, of its localised action value `Q_i(s, a_1..a_i)`, which averages over those after it; so
each agent's own KL-regularised step, `pi_i' ~ pi_i exp(Q_i / beta)`, climbs the joint return. Here the step is the
surrogate with a KL drift of MDPO, from advantages along the agent's own decisions, whose critic reads the joint state
and the moves made so far: what it predicts is `E[Q_i]` before `a_i`, so the advantage is that of `Q_i`.
"""

from __future__ import annotations

from hocket.core.requirements import Requirement
from hocket.methods.group_relative.mdpo import MDPO
from hocket.objectives.central import CentralValueLoss

MULTI_AGENT_PPO_GLOBAL = MDPO.but(
    name="multi-agent-ppo-global",
    title="Multi-agent PPO with sequential policies and localised values",
    source="Zhao et al., Local Optimization Achieves Global Optimality in MARL, arXiv:2305.04819",
    catalogue_ids=("multi-agent-ppo-global",),
    family="multi-agent",
    axes=("team", "objective", "analysis"),
    formula="L = -mean_t [r_t A_t - beta (r_t log r_t - r_t + 1)] + 1/2 mean_t (V_t - y_t)^2,  "
    "r of pi_i(a_i | s, a_<i),  A of Q_i(s, a_1..a_i), V of the joint state and a_<i",
    conventions={
        **MDPO.conventions,
        "order": "the world's, the same at every step",
        "beta": "2 on whitened advantages (drift.first and last are 1/beta); constant, as the paper's beta sqrt(K) is "
        "for a number K of iterations given before",
        "network": "one for all agents, told apart by a one-hot number; the paper's are overparametrised and apart",
        "localised value": "GAE along the agent's own decisions, its critic central; the paper fits Q_i itself",
    },
    note="the on-policy algorithm; the extension to recorded data, with its pessimism, is not built",
    task="mpe:spread?agents=2&sequenced=true",
    requires=(Requirement.IN_TURN,),
    regularisers=(CentralValueLoss(coefficient=0.5, aggregate="token-mean"),),
    **{"objective.drift.first": 0.5, "objective.drift.last": 0.5},
)
