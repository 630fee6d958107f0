"""HAPPO: agents with policies of their own learn one after the other (Kuba et al., arXiv:2109.11251).

A team's advantage is a sum of what each agent adds given the moves of those before it (the paper's lemma 1), so each
may climb its term by a PPO step while the earlier ones' changes are held. `InTurn` of `hocket.credit.sequential_agents`
is that term: the joint advantage times the ratios of those who learnt before in this step, in an order drawn anew every
time. Each has a critic of the joint state; the team's advantage is the mean of theirs. With one agent and a critic of
what it sees, it is PPO step for step.
"""

from __future__ import annotations

from hocket.core.casting import Separate
from hocket.credit.sequential_agents import InTurn
from hocket.methods.base.mappo import MAPPO
from hocket.update.parts import PartedStep

HAPPO = MAPPO.but(
    name="happo",
    title="Heterogeneous-agent PPO",
    source="Kuba et al., arXiv:2109.11251",
    axes=("team", "credit"),
    formula="for the agents i_1..i_n in an order drawn anew:  L_m = -mean_t min(r_m M_m, clip(r_m) M_m),  "
    "M_m = r_1 .. r_(m-1) A(s, a),  r_j = pi_j^new / pi_j^old of the agent i_j, after its update",
    conventions={
        **MAPPO.conventions,
        "agents": "each has an actor, a critic and an optimiser of its own, heterogeneous or not",
        "critic": "one for each agent, of the joint state beside what it sees; the team's advantage is the mean of "
        "theirs, as of one critic that is the mean of all (the paper fits one)",
        "whitening": "the team's advantages over the batch's decisions, before the factor",
        "factor": "from all epochs of those before, not clipped; decisions of others after them count as ever",
        "order": "drawn at every step by the step's key",
    },
    cast=Separate(),
    correction=InTurn(),
    update=PartedStep(epochs=4, minibatches=4),
    **{"credit.whiten": False},
)
