"""ARPO: an agent's earlier success comes back where all samples of its task fail (Lu et al., arXiv:2505.16282).

GRPO over episodes of several turns. Successes are kept per task; a group without any gets one of them in the place of
one failure (`ReusedSuccess`), so that it has a contrast. The ratio of its actions is to the policy that took them.
"""

from __future__ import annotations

from hocket.core.requirements import Requirement
from hocket.curriculum.scenario_worth import Weighted
from hocket.methods.base.grpo import GRPO
from hocket.objectives.replay_surrogate import ReplayedSurrogate
from hocket.rollout.replay import ReusedSuccess

ARPO_GUI = GRPO.but(
    name="arpo-gui",
    title="ARPO: experience replay of an agent's successes",
    source="Lu et al., ARPO: End-to-End Policy Optimization for GUI Agents with Experience Replay, arXiv:2505.16282",
    family="data-and-rollout",
    catalogue_ids=("arpo-gui",),
    axes=("rollout", "data"),
    formula="if max_g R < success: one y_i <- a kept success;  A_i = (R_i - mean_g R)/(std_g R + eps),  "
    "r_t = pi(a_t)/pi_kept(a_t)",
    conventions={
        **GRPO.conventions,
        "what is kept": "the latest 16 successes of a task; recalled, the paper gives no size",
        "what comes back": "one, drawn at random, in the place of a failure drawn at random",
        "selection of tasks": "left to the run: curriculum.pool bounds the tasks, which come again at random; the "
        "paper keeps those that the first policy sometimes solves",
        "screens": "what the agent is shown is text here",
    },
    task="maze?width=3&height=3&steps=10&reading=number",
    requires=(Requirement.TURNS,),
    curriculum=Weighted(),
    rollout=ReusedSuccess(),
    objective=ReplayedSurrogate(),
)
