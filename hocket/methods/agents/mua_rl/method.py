"""MUA-RL: GRPO for a tool user who talks with a simulated user (Zhao et al., arXiv:2508.18669).

The user is part of the rollout and never learns; what it draws is part of the environment. One bit is earned, at the
end: the database is as the right calls leave it and every required output was named (`DatabaseMatch` of
`hocket.methods.agents.mua_rl.reward`).
"""

from __future__ import annotations

from hocket.core.casting import Leading
from hocket.core.requirements import Requirement
from hocket.methods.agents.mua_rl.reward import DatabaseMatch
from hocket.methods.base.grpo import GRPO

MUA_RL = GRPO.but(
    name="mua-rl",
    title="Learning with a simulated user in the rollout",
    source="Zhao et al., MUA-RL, arXiv:2508.18669",
    catalogue_ids=("mua-rl",),
    axes=("team", "environment", "reward"),
    formula="R_i = [hash(final database) = hash(database after the right calls)] [every output was said];  "
    "A_i = (R_i - mean_g R)/(std_g R + eps)",
    conventions={
        **GRPO.conventions,
        "user": "in the rollout; what it draws differs from dialogue to dialogue of a group, as part of the "
        "environment. A script by default; where the workflow says played, the model as it was plays the role `user`, "
        "or any other by --roles.user.model and endpoint",
        "loss": "the agent's tokens alone: user and tools are observation",
        "outputs": "case and commas ignored, anywhere in a message that is no call, as in the released score",
        "hash": "dict keys and sets in any order; lists in theirs",
        "workflow": "the task's (simulated-user over a desk)",
        "start": "the shipped base closes no talk at the desk, so nothing is learnt from the bit alone: --lessons 60, "
        "or --task 'order-desk?played=true' --lessons 120, which teaches the customer's words too",
    },
    task="order-desk",
    requires=(Requirement.TURNS,),
    cast=Leading("agent", "user"),
    rewards=(DatabaseMatch(),),
)
