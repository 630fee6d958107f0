"""Reinforcement learning techniques for language models: a survey with three axes (Srivastava and Aggarwal, 2025).

It compares methods by how their reward is modelled, by the feedback they learn from, and by how they optimise. All
three are read off a recipe's composition here, so that a new recipe has its place without being listed.
"""

from __future__ import annotations

from hocket.core.surveys import (
    Axis,
    Cell,
    FieldSurvey,
    any_of,
    family,
    fills,
    is_a,
    kind,
    mentions,
    reads,
    row,
    rows,
    uses,
)

JUDGED = any_of(
    *map(uses, ("JudgedBy", "JudgedEpisode", "JudgedTurns", "JudgeFailures", "EvolvingRubric", "GradedPairs")),
    uses("Checklist"),
    uses("Wins"),
)
"""A model, or what stands in for one, gives the verdicts in training."""

LEARNT = any_of(*map(uses, ("BradleyTerry", "LabelledScore", "RegressedScore"))) | is_a("ppo-rlhf") | row("parl")
"""A reward model is fitted to verdicts, or its score is what is earned."""

PAIRED = any_of(*map(uses, ("Preferences", "ScoredPreferences", "Ranked", "Labelled", "BradleyTerry"))) | is_a(
    "ppo-rlhf"
)
"""Recorded comparisons or labels of answers."""

IMITATION = uses("NegativeLogLikelihood") | uses("Distillation")

DIRECT = any_of(*map(uses, ("Pairwise", "Unpaired", "Listwise")))

SURVEY_RL_TECHNIQUES_LLM = FieldSurvey(
    name="survey-rl-techniques-llm",
    title="A Technical Survey of Reinforcement Learning Techniques for Large Language Models",
    source="Srivastava and Aggarwal, arXiv:2507.04136",
    witness="every method that it names takes a training step as shipped, and its three axes place every recipe",
    axes=(
        Axis(
            "reward",
            "How the reward is modelled.",
            (
                Cell("learnt", "a reward model fitted to human verdicts", LEARNT),
                Cell("judge", "verdicts of another model, by a rubric or a comparison", JUDGED),
                Cell("implicit", "no model: the policy's own likelihood is the reward", DIRECT),
                Cell(
                    "process",
                    "rewards of steps instead of outcomes",
                    any_of(*map(is_a, ("process-reward", "grpo-process"))) | uses("TurnRelative"),
                ),
                Cell("imitation", "no reward: recorded or taught answers", IMITATION & ~DIRECT),
                Cell(
                    "verifier",
                    "rules that check the outcome",
                    kind("recipe") & ~LEARNT & ~JUDGED & ~DIRECT & ~IMITATION,
                ),
            ),
        ),
        Axis(
            "feedback",
            "What kind of feedback is learnt from.",
            (
                Cell("preferences", "comparisons and labels, recorded beforehand", PAIRED),
                Cell("ai", "another model's verdicts in training", JUDGED),
                Cell("critiques", "words about what is wrong with an answer", rows("text2grad", "spectral-po", "gtr")),
                Cell("demonstrations", "answers to be imitated", IMITATION),
                Cell(
                    "outcomes",
                    "what a verifier or an environment pays",
                    kind("recipe") & ~PAIRED & ~JUDGED & ~IMITATION & ~row("text2grad"),
                ),
            ),
        ),
        Axis(
            "optimisation",
            "How the policy is optimised.",
            (
                Cell("actor-critic", "a policy and a value of states", reads("value") & ~DIRECT),
                Cell("group", "samples of a prompt are each other's baseline", uses("GroupRelative") | is_a("grpo")),
                Cell(
                    "policy-gradient",
                    "the score-function gradient without a clip",
                    uses("PolicyGradient") | uses("MaskedPolicyGradient") | is_a("reinforce"),
                ),
                Cell("clipped", "a trust region by a clipped ratio", uses("ClippedSurrogate") | row("p3o")),
                Cell("value-based", "values of actions, and no gradient through a log-prob", uses("CriticLoss")),
                Cell("direct", "a loss on comparisons, with no sampling needed", DIRECT),
                Cell("regression", "advantages are regressed on", uses("AdvantageRegression")),
                Cell("imitation", "the likelihood of recorded answers", IMITATION),
                Cell("scorer", "no policy: the reward model is what is fitted", family("reward-model") | row("marlhf")),
                Cell("zeroth-order", "no gradient: differences along random directions", uses("DirectionStep")),
                Cell("stored", "experience is learnt from again, out of a store", fills("store") | uses("ReplayStore")),
            ),
        ),
        Axis(
            "problem",
            "The open problems that it names.",
            (
                Cell(
                    "reward-hacking",
                    "answers that please the reward model alone",
                    rows("hail-to-the-thief", "mpo-meta-reward", "noisy-verifier-correction", "secrets-rlhf-2"),
                ),
                Cell("cost", "computation of sampling and learning", rows("cppo", "d3s", "two-grpo", "knapsack-rl")),
                Cell("scalable-feedback", "feedback without people", rows("rluf", "spo-minimax", "ttrv")),
                Cell("hybrid", "recorded and own answers in one update", rows("rl-plus", "srpo", "tempsamp-r1")),
                Cell(
                    "multi-objective",
                    "several rewards that differ",
                    mentions("multi-objective") | rows("group-robust-po", "pref-factorization"),
                ),
            ),
        ),
    ),
    named=(
        Cell("PPO", "proximal policy optimisation", is_a("ppo")),
        Cell("Q-learning", "values of actions from transitions", is_a("dqn")),
        Cell("actor-critic", "advantage actor-critic", is_a("a2c")),
        Cell("RLHF", "PPO on a learnt reward, with a KL penalty", is_a("ppo-rlhf")),
        Cell("RLAIF", "the same with a model's verdicts", rows("mpo-meta-reward", "spo-minimax")),
        Cell("DPO", "direct preference optimisation", is_a("dpo")),
        Cell("GRPO", "group relative policy optimisation", is_a("grpo")),
    ),
)
