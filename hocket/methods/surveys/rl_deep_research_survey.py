"""RL for agents that search, read and write: a survey of deep research systems (arXiv:2509.06733).

It sorts what came after DeepSeek-R1 by data, RL methods and training systems, and covers architecture and evaluation
besides. Its argument: supervised tuning teaches the protocol of calls but underuses what the environment answers, and
DPO needs decision points that people define; so a planner with tools is best trained by RL on whole trajectories.
"""

from __future__ import annotations

from hocket.core.surveys import Axis, Cell, FieldSurvey, Gap, is_a, mentions, requires, row, rows

RL_DEEP_RESEARCH_SURVEY = FieldSurvey(
    name="rl-deep-research-survey",
    title="Reinforcement Learning Foundations for Deep Research Systems: A Survey",
    source="arXiv:2509.06733",
    witness="on `lookup` lessons teach the form of calls and as many lessons more add little; RL on whole trajectories "
    "from there is right far more often",
    axes=(
        Axis(
            "data",
            "How questions are made and chosen.",
            (
                Cell("synthesis", "questions that a model makes or rewrites", rows("clpo", "cpmobius")),
                Cell("hops", "questions that take several searches", rows("r1-router", "tree-grpo", "mrag")),
                Cell(
                    "curation", "those are kept from which something can be learnt", rows("srpo", "mmr1-vas", "cures")
                ),
                Cell(
                    "curriculum", "easy ones or short episodes first", rows("agentgym-rl", "kimi-k1-5", "r1-searcher")
                ),
                Cell(
                    "contamination",
                    "questions that a model cannot know by heart",
                    Gap("facts are drawn, and no page of the web is read", until=mentions("contamination")),
                ),
            ),
        ),
        Axis(
            "method",
            "What RL for research agents is about.",
            (
                Cell("stability", "training that does not collapse", rows("gmpo", "bapo", "search-r1") | is_a("dapo")),
                Cell("sample-efficiency", "more from a sample", rows("repo-replay", "ar3po", "tree-grpo", "arpo")),
                Cell("long-context", "what tools answer is kept out of the planner's context", row("matpo")),
                Cell("outcome-reward", "the answer alone is paid", rows("search-r1", "tapo-tool")),
                Cell("search-cost", "search where needed, and no more", rows("otc", "sem")),
                Cell("step-credit", "credit to turns and calls", rows("igpo", "mt-grpo", "gigpo", "salt", "search-r2")),
                Cell(
                    "multi-objective", "several rewards at once", rows("multi-objective-grpo", "g-ra", "reasoning-sql")
                ),
                Cell("multimodal", "pictures among what is read; here in words", rows("vista-tools", "mmedagent-rl")),
            ),
        ),
        Axis(
            "system",
            "How such training is run.",
            (
                Cell("asynchronous", "sampling does not wait for learning", row("areal") | is_a("m2po")),
                Cell("shared-prefixes", "a common history is computed once", row("prefix-grouper")),
                Cell("decentralised", "nodes that share experience", rows("sapo-swarm", "lattica")),
                Cell("tools", "calls of tools in the rollout", requires("calls of tools")),
                Cell("mixed-players", "agents of any kind behind one protocol", row("mosaic-platform")),
            ),
        ),
        Axis(
            "architecture",
            "Who does what.",
            (
                Cell("planner-with-tools", "one policy and its tools", rows("search-r1", "r1-searcher", "tapo-tool")),
                Cell("hierarchy", "planner, coordinator and executors", rows("agentflow", "matpo", "mlpo", "hi-agent")),
                Cell("retrieval-team", "agents of retrieval trained together", row("mrag")),
            ),
        ),
        Axis(
            "regime",
            "How the planner is trained.",
            (
                Cell("sft", "imitation: the protocol", is_a("sft")),
                Cell("preference", "comparisons at defined decision points", rows("dmpo", "sdpo", "toa", "tool-star")),
                Cell(
                    "rl", "whole trajectories in a closed loop", rows("search-r1", "r1-searcher", "agentflow", "arpo")
                ),
            ),
        ),
        Axis(
            "evaluation",
            "What is measured.",
            (
                Cell("qa", "short answers", rows("search-r1", "r1-router")),
                Cell("vqa", "questions about pictures", rows("vista-tools", "mm-eureka")),
                Cell("long-form", "reports, by checklists", row("ace-rl")),
                Cell("domain", "tools of a field", rows("reasoning-sql", "doctoragent-rl", "verireason")),
            ),
        ),
    ),
    named=(
        Cell("PPO", "a critic of tokens", is_a("ppo")),
        Cell("GRPO", "the common optimiser", is_a("grpo")),
        Cell("DPO", "off-policy comparisons", is_a("dpo")),
        Cell("Search-R1", "searches within a response, their results masked", row("search-r1")),
        Cell("R1-Searcher", "first to search, then to answer", row("r1-searcher")),
        Cell("AReaL", "asynchronous training", row("areal")),
    ),
)
