"""Agents that work with tools on somebody's behalf: databases asked in words, customers at a desk."""

from __future__ import annotations

from hocket.recipes.group_relative import GRPO
from hocket.rewards import (
    ClauseMatch,
    DatabaseMatch,
    ExecutionMatch,
    JudgeFailures,
    NgramOverlap,
    SchemaLinking,
    TagFormat,
    ValidSyntax,
)

REASONING_SQL = GRPO.but(
    name="reasoning-sql",
    title="Partial rewards for text-to-SQL",
    source="Pourreza et al., Reasoning-SQL, arXiv:2503.23157",
    catalogue_ids=("reasoning-sql",),
    axes=("reward", "environment", "objective"),
    formula="R = 4.5 execution + linking + ngrams + judge (if execution = 0) + 0.5 syntax + 0.5 tags, "
    "linking = |T_pred & T_gold| / |T_pred | T_gold| over tables and columns",
    conventions={
        **GRPO.conventions,
        "weights": "ours: 4.5 for execution exceeds the sum 4 of all others, so partial credit never outranks a right "
        "query; the abstract gives none",
        "execution": "equal multisets of rows in every database of the scenario, lists after ORDER BY",
        "linking": "columns belong to their table whatever the alias, * is every column",
        "n-grams": "overlap of the sets of token pairs, case ignored",
        "syntax": "parses and runs",
        "judge": "of queries that fail on execution; clauses compared by rule stand for the paper's language model, "
        "which any reward replaces (rewards.4.judge)",
        "tags": "<think>..</think><answer>..</answer>",
    },
    note="the judge of failing queries is a rule by default; a language model takes its place as rewards.4.judge",
    rewards=(
        ExecutionMatch(weight=4.5),
        SchemaLinking(weight=1.0),
        NgramOverlap(weight=1.0),
        ValidSyntax(weight=0.5),
        JudgeFailures(ClauseMatch(), weight=1.0),
    ),
    shaping=(TagFormat(weight=0.5),),
)

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
        "environment. A script by default, a policy in the role `user` where the workflow says played",
        "loss": "the agent's tokens alone: user and tools are observation",
        "outputs": "case and commas ignored, anywhere in a message that is no call, as in the released score",
        "hash": "dict keys and sets in any order; lists in theirs",
        "workflow": "the task's (simulated-user over a desk)",
    },
    rewards=(DatabaseMatch(),),
)
