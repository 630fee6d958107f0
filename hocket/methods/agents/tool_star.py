"""Tool-Star: GRPO with a bonus for using both tools, alternating with DPO (Dong et al., arXiv:2505.16410).

The reward (`ToolAnswer` of `hocket.rewards.tool_answer`) punishes bad form and adds 0.1 to a rewarded answer that
called both search and Python. `tool-star-rl` stops there; `tool-star` follows every 30 steps by 10 of DPO on its own
best and worst answers (`AlternatingCredit`, `AlternatingObjective`).
"""

from __future__ import annotations

from hocket.core.requirements import Requirement
from hocket.credit.alternating import AlternatingCredit
from hocket.methods.agents.tapo_tool import TAPO_TOOL
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.methods.base.grpo import GRPO
from hocket.objectives.alternating import AlternatingObjective
from hocket.rewards.tool_answer import ToolAnswer

TOOL_STAR_RL = GRPO.but(
    name="tool-star-rl",
    title="Tool-Star, reinforcement learning alone: a bonus for answers reached with both kinds of tools",
    source="Dong et al., arXiv:2505.16410, and the authors' reward code",
    family="agents",
    axes=("reward",),
    formula="R_i = -1 if malformed, else s_i + 0.1 [s_i > 0 and both tools were called];  " + GRPO.formula,
    conventions={
        **GRPO.conventions,
        "form": TAPO_TOOL.conventions["form"].partition(";")[0],
        "s": "1 if equal, else the F1 of words, as the authors' code has for questions; metadata grade names another",
        "tools": "rewards.0.tools = (search, python), by name; a call counts whatever came of it",
        "workflow": "the task's, or --workflow tool-use",
        "tool output": TAPO_TOOL.conventions["tool output"],
        "hack": "the bonus is paid on questions that need no tool, too: once two calls there are tried, they rise",
    },
    task="calculator?digits=5",
    requires=(Requirement.TOOLS,),
    rewards=(ToolAnswer(grade="f1", tools=("search", "python"), bonus=0.1),),
)


TOOL_STAR = TOOL_STAR_RL.but(
    name="tool-star",
    title="Tool-Star: reinforcement learning and self-critic preference learning by turns",
    catalogue_ids=("tool-star",),
    axes=("data", "reward", "objective"),
    formula=f"{TOOL_STAR_RL.formula};  after every 30 steps 10 of {ONLINE_DPO.formula}",
    conventions={
        **TOOL_STAR_RL.conventions,
        "rounds": "30 steps of RL, then 10 of DPO, and so on, chosen here",
        "pairs": "best against worst of 8 answers by the same reward, one pair per question; none where all are equal",
        "reference": "the policy before training, also in later phases; beta = 0.1",
        "data": "the cold start is SFT (recipe sft) on demonstrations that call tools",
    },
    note="that the bonus is at work with the shipped base is no claim yet: on reckoning, 20 steps after 100 lessons, "
    ".58 and .70 of what needs both tools was answered with both (two seeds), without it 0 and .72; traces with hinted "
    "calls, their quality rules and the split by difficulty are not made here; once calls are tried where none is "
    "needed, the bonus raises them there",
    credit=AlternatingCredit((GRPO.credit, GRPO.credit, GRPO.credit, ONLINE_DPO.credit), every=10),
    objective=AlternatingObjective((GRPO.objective, GRPO.objective, GRPO.objective, ONLINE_DPO.objective), every=10),
)
