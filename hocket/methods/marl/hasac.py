"""HASAC: maximum entropy for a team whose agents learn in turn (Liu et al., arXiv:2306.10715).

The team's soft value counts the entropy of all agents. In every draw agents learn one after the other in an order drawn
anew, each by the softmax of the joint soft value, while those before it act by their policies after their update
(`SoftTeamCritics` of `hocket.policies.team_critics`).
"""

from __future__ import annotations

from hocket.methods.marl.maddpg import MADDPG
from hocket.objectives.action_values import TeamCriticLoss
from hocket.policies.team_critics import SoftTeamCritics

HASAC = MADDPG.but(
    name="hasac",
    title="Heterogeneous-agent soft actor-critic",
    source="Maximum Entropy Heterogeneous-Agent Reinforcement Learning, Liu et al., arXiv:2306.10715",
    catalogue_ids=("hasac",),
    axes=("team", "objective", "credit"),
    formula="for the agents i_1..i_n in an order drawn anew:  L_m = E_{a ~ pi_im}[alpha log pi_im(a|o) - min_k Q_k(x, "
    "a_i1..a, .., a_in)], a_j ~ pi_j at present;  (Q_k - y)^2,  y = r + gamma (min_k Q-_k(x', a') - alpha sum_j E log "
    "pi_j(.|o'_j))",
    conventions={
        **MADDPG.conventions,
        "actions": "one of several choices; the mean over an agent's own action is exact, of the others' one is drawn",
        "critics": "2, of each agent its own on the team's reward; the authors' agents have a pair in common",
        "reward": "the mean over agents",
        "temperature": "0.05, fixed",
        "order": "drawn anew for every draw",
        "actor's outputs": "not held down",
    },
    task="mpe:spread",
    objective=TeamCriticLoss(SoftTeamCritics(), coefficient=1.0),
)
