"""MADDPG: actors of what each agent sees, critics of what all see and do (Lowe et al., arXiv:1706.02275).

`TeamCritics` of `hocket.policies.team_critics` is the policy of each agent: its actor, a critic, and slow copies of
both. Rows of the store are moments of the team; what the others' slow actors do next is a column that each fills. To a
critic that knows every action its environment does not change while the other agents learn.
"""

from __future__ import annotations

from hocket.core.casting import Separate
from hocket.core.requirements import Requirement
from hocket.credit.reinforce import Uniform
from hocket.methods.base.conventions import STORED
from hocket.objectives.action_values import PathwiseLoss, TeamCriticLoss
from hocket.policies.team_critics import TeamCritics
from hocket.recipe import Recipe
from hocket.rollout.joint_transitions import JointTransitions
from hocket.update.following import FollowingStep

MADDPG = Recipe(
    name="maddpg",
    title="Multi-agent DDPG: critics of all agents' actions",
    source="Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments, Lowe et al., arXiv:1706.02275",
    family="multi-agent",
    catalogue_ids=("maddpg",),
    axes=("team", "credit", "policy"),
    formula="L_i = (Q_i(x, a_1..a_n) - y_i)^2 - Q_i(x, a_1..mu_i(o_i)..a_n),  "
    "y_i = r_i + gamma Q-_i(x', mu-_1(o'_1), .., mu-_n(o'_n)),  w- <- w- + tau (w - w-)",
    conventions={
        **STORED,
        "rows": "moments of the whole team, 1,024 of them for each gradient, drawn independently",
        "updates": "a gradient of every agent for every 25 moments; the authors' code has one for every 100",
        "actions": "one of several choices: the actor acts by its softmax, and in its loss by Gumbel noise with the "
        "gradient of the softmax; critics read one-hot actions, the authors' the relaxed ones",
        "others' next actions": "drawn by their slow actors as the draw begins",
        "actor's outputs": "their square is held down by 0.001, as in the authors' code",
        "slow copies": "of actor and critic, tau 0.01, after every gradient",
        "sub-policies": "none; each agent has one policy",
    },
    task="mpe:speaker-listener",
    requires=(Requirement.AGENTS,),
    cast=Separate(),
    store=JointTransitions(rows=1024, gamma=0.95, ratio=0.04, begin=1024),
    credit=Uniform(),
    objective=TeamCriticLoss(TeamCritics(), coefficient=1.0),
    regularisers=(PathwiseLoss(),),
    update=FollowingStep(lr=3e-3, clip_norm=0.5, rate=0.01),
)


IDDPG = MADDPG.but(
    name="iddpg",
    title="Independent DDPG: a critic of each agent's own action",
    source="the baseline of Lowe et al., arXiv:1706.02275",
    formula="maddpg with Q_i(o_i, a_i) in the place of Q_i(x, a_1..a_n)",
    **{"objective.values.central": False},
)
