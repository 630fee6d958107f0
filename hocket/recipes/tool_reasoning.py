"""Reasoning that calls tools on its way to an answer."""

from __future__ import annotations

from hocket.credit import AlternatingCredit
from hocket.objectives import AlternatingObjective
from hocket.objectives.aggregate import HORIZON
from hocket.recipes.group_relative import DAPO, GRPO
from hocket.recipes.preference import DPO
from hocket.rewards import OverlongPenalty, ToolAnswer
from hocket.rollout import AccuracySampling

TAPO_TOOL = DAPO.but(
    name="tapo-tool",
    title="Tool-Augmented Policy Optimisation: DAPO over calls inside the reasoning",
    source="Wu et al., arXiv:2510.07038, and the authors' code",
    family="agents",
    catalogue_ids=("tapo-tool",),
    axes=("rollout", "objective", "reward"),
    formula="R_i = -1 if malformed else s_i in [0, 1], minus the overlong penalty;  "
    "L = -1/sum_i n_i sum_i sum_t min(r A, clip(r, 1-0.2, 1+0.28) A), at least 10 A for A < 0",
    conventions={
        **DAPO.conventions,
        "clipping side": "0.2 below, 0.28 above; dual clip at 10",
        "calls": "a turn that ends with <tool_call> is answered by a tool message and the next turn goes on, up to the "
        "turns of the workflow; the authors' <search> and <code> stop one response instead",
        "workflow": "the task's, which brings its tools (calculator, multihop), or --workflow tool-use",
        "tool output": "observation, never a decision: in no ratio, loss or length",
        "form": "every tag closed and an answer at the end, over all turns; the authors' code lets pass tags that are "
        "never closed",
        "s": "exact match; a scenario's metadata grade may say fact (held, or near in edit distance), near (1e-3) or "
        "nearly (5%)",
        "reward for calls": "none",
        "constant group": "one whose samples are all right or all wrong, s > rollout.right = 0.9, is asked again, at "
        "most 3 rounds (the script: 10)",
        "truncated samples": f"soft penalty over the last half before shaping.0.limit = {HORIZON} decisions, -1 at it",
        "updates per batch": "4 mini-batches, as the script's",
    },
    rollout=AccuracySampling(samples=8, max_rounds=3),
    rewards=(ToolAnswer(),),
    shaping=(OverlongPenalty(limit=HORIZON, buffer=HORIZON // 2, penalty=1.0),),
    **{"objective.dual": 10.0, "update.minibatches": 4},
)

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
    rewards=(ToolAnswer(grade="f1", tools=("search", "python"), bonus=0.1),),
)

TOOL_STAR = TOOL_STAR_RL.but(
    name="tool-star",
    title="Tool-Star: reinforcement learning and self-critic preference learning by turns",
    catalogue_ids=("tool-star",),
    axes=("data", "reward", "objective"),
    formula=f"{TOOL_STAR_RL.formula};  after every 30 steps 10 of {DPO.formula}",
    conventions={
        **TOOL_STAR_RL.conventions,
        "rounds": "30 steps of RL, then 10 of DPO, and so on, chosen here",
        "pairs": "best against worst of 8 answers by the same reward, one pair per question; none where all are equal",
        "reference": "the policy before training, also in later phases; beta = 0.1",
        "data": "the cold start is SFT (recipe sft) on demonstrations that call tools",
    },
    note="traces with hinted calls, their quality rules and the split by difficulty are not made here; once calls are "
    "tried where none is needed, the bonus raises them there",
    credit=AlternatingCredit((GRPO.credit, GRPO.credit, GRPO.credit, DPO.credit), every=10),
    objective=AlternatingObjective((GRPO.objective, GRPO.objective, GRPO.objective, DPO.objective), every=10),
)
