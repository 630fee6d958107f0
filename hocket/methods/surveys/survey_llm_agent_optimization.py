"""How language-model agents are improved, with weights and without: a survey (arXiv:2503.12434).

With weights: supervised tuning on filtered trajectories, RL by a reward or by preferences, and both in turn. Without:
experience, feedback, tools, retrieval, and several agents by prompts.
"""

from __future__ import annotations

from hocket.core.surveys import Axis, Cell, FieldSurvey, Gap, is_a, kind, mentions, reads, requires, rows, uses

SURVEY_LLM_AGENT_OPTIMIZATION = FieldSurvey(
    name="survey-llm-agent-optimization",
    title="A Survey on the Optimization of Large Language Model-based Agents",
    source="arXiv:2503.12434",
    witness="every leaf of its tree is in the library, or the map says what is lacking; on `lookup` four ways of "
    "training and a search for prompts are compared at equal tokens",
    axes=(
        Axis(
            "parameters",
            "Optimisation of weights.",
            (
                Cell(
                    "filtered-cloning",
                    "supervised tuning on trajectories that succeeded",
                    rows("reagent-v", "mrag", "tool-star"),
                ),
                Cell(
                    "reward-based",
                    "RL on a reward: PPO and group methods",
                    requires("several turns") & uses("ClippedSurrogate"),
                ),
                Cell("actor-critic", "of these with a value", requires("several turns") & reads("value")),
                Cell("preference-based", "DPO on pairs of trajectories", rows("dmpo", "sdpo", "toa", "collabuiagents")),
                Cell("hybrid", "supervised tuning, then RL", rows("tool-star", "verireason", "gtr")),
            ),
        ),
        Axis(
            "prompts",
            "Optimisation without weights.",
            (
                Cell(
                    "experience",
                    "a library of what was learnt from experience",
                    rows("training-free-grpo", "annotation-memory"),
                ),
                Cell(
                    "feedback",
                    "prompts revised by words about failures",
                    kind("searcher") & (is_a("reflective") | is_a("gepa")),
                ),
                Cell(
                    "tools",
                    "descriptions of tools are improved",
                    Gap(
                        "a searcher changes instructions, never a tool's description",
                        until=mentions("descriptions of tools"),
                    ),
                ),
                Cell("retrieval", "what is retrieved is improved", rows("mrag", "annotation-memory")),
                Cell("multi-agent", "roles and their prompts", rows("mass", "optagent", "mars-prompt")),
            ),
        ),
        Axis(
            "data",
            "How trajectories are made and filtered.",
            (
                Cell("own", "the agent's own successes", uses("ReplayStore") | rows("repo-replay", "arpo-gui")),
                Cell("expert", "a stronger model's or a person's", uses("WithExpert") | uses("Demonstrations")),
                Cell("trees", "branches of one trajectory", rows("tree-grpo", "arpo", "at-grpo", "webpilot")),
                Cell(
                    "repaired",
                    "failed trajectories with a corrected step",
                    rows("sdpo", "edge-grpo", "backtracking-safety"),
                ),
            ),
        ),
    ),
    named=(
        Cell("PPO", "clipped ratio with a value", is_a("ppo")),
        Cell("GRPO", "group baseline", is_a("grpo")),
        Cell("DPO", "pairs", is_a("dpo")),
        Cell("DMPO", "pairs of trajectories of several turns", is_a("dmpo")),
        Cell(
            "ArCHer",
            "a critic of turns over a policy of tokens",
            Gap("values are of tokens or of turns, not of both levels at once", until=is_a("archer")),
        ),
        Cell("GiGPO", "groups within groups", is_a("gigpo")),
    ),
)
