"""MATPO: GRPO for one model that is both planner and workers (Mo et al., arXiv:2510.04678).

A rollout is the planner's conversation with those of all workers it called, and one advantage serves them all. No new
piece: workflow `planner-worker` records the conversations as one trajectory, in which tool output and what other agents
said are no decisions. Workers have the tools of the task.
"""

from __future__ import annotations

from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO

TOOLS = "observation, never a decision: no gradient; so is what another agent said"


MATPO = GRPO.but(
    name="matpo",
    title="Multi-agent tool-integrated policy optimisation",
    source="Mo et al., arXiv:2510.04678, and the authors' code",
    family="teams",
    catalogue_ids=("matpo",),
    axes=("team", "credit", "environment"),
    formula="A_i = (R_i - mean_g R)/(std_g R + eps) for the planner's decisions and for every worker's it called",
    conventions={
        **GRPO.conventions,
        "rollout": "a planner with all its workers, whose contexts are their own: one trajectory, one reward",
        "workers": "may call the tools of the task, up to the workflow's `turns` replies (4)",
        "tool output": TOOLS,
        "rewards": "the task's; the released setup has 0.9 accuracy + 0.1 tool format",
        "aggregation": "mean over all decisions of planner and workers, then over rollouts",
        "who learns": "one policy, told apart by system prompts",
    },
    task="calculator?digits=2",
    requires=(Requirement.AGENTS, Requirement.TURNS),
    workflow="planner-worker",
)
