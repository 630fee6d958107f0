"""HAMMER: a central agent learns what to tell each of its local agents (Gupta et al., arXiv:2102.00824).

In worlds with `?messages=M` (`Messaged` of `hocket.methods.marl.hammer.message_channel`) a central agent that sees the
joint state sends every local agent one of M symbols before each move; local agents hear their own message and nothing
else. Messages are actions: the messenger is trained by PPO on the team's mean reward, its return being what the others
made of its words, and no gradient passes from one network to the other. Local agents are trained by PPO on their own
rewards. `TwoLevels` seats one policy below and one above. With `messages=0` there is no messenger, and the run is
IPPO's.

Below and above each begin to learn by what the other has not learnt yet, so the first steps gain little, and most of
what is seen of them is noise: worlds with messages suggest four times the episodes of others and half the passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from hocket.core.casting import Shared
from hocket.core.requirements import Requirement
from hocket.methods.marl.hammer.message_channel import VOICE
from hocket.methods.marl.ippo import IPPO


@dataclass(frozen=True)
class TwoLevels(Shared):
    """One policy for all voices of the central agent, `messenger`, and one for all local agents."""

    def policy(self, role: str) -> str | None:
        return VOICE if role.startswith(f"{VOICE}_") else None


HAMMER = IPPO.but(
    name="hammer",
    title="HAMMER: learned messages of a central agent",
    source="Gupta et al., HAMMER, arXiv:2102.00824",
    catalogue_ids=("hammer",),
    formula="local agent i:  PPO of pi(a_i | o_i, m_i) on its own rewards;  "
    "messenger:  PPO of mu(m | s) = prod_i mu_i(m_i | s) on the mean of all rewards",
    conventions={
        **IPPO.conventions,
        "messages": "a symbol for each agent before every move, of an alphabet of `messages`; the paper has real "
        "vectors too, which a batch cannot hold beside discrete moves",
        "messenger": "sees the joint state; its voices, one for each receiver, share a network and are told apart by a "
        "one-hot number, each with a clipped ratio of its own",
        "world": "each agent has a landmark of its own, which is hidden; agents who must share landmarks out between "
        "them gain far less from being told, a tenth of what seeing gains in 60 steps",
        "time": "a step of the world takes two times, and every agent's discount counts its own decisions",
    },
    task="mpe:spread?agents=2&own=true&local=0.1&hidden=true&messages=5",
    requires=(Requirement.AGENTS,),
    cast=TwoLevels(),
)
