"""Teams that answer together: who reads whom, who learns, and what each earns."""

from __future__ import annotations

from hocket.casting import Alternating, Leading, Separate, Swapping
from hocket.credit import EachAgent, GroupRelative, TurnRelative
from hocket.recipes.actor_critic import PPO_RLHF
from hocket.recipes.group_relative import GRPO
from hocket.types import GroupBy

CORY = PPO_RLHF.but(
    name="cory",
    title="Coevolving with the Other You",
    source="Ma et al., arXiv:2410.06101, and the authors' code",
    family="teams",
    catalogue_ids=("cory",),
    axes=("team", "reward", "objective"),
    formula="a1 ~ pi_1(.|q), a2 ~ pi_2(.|q, a1); each: PPO on r(q, a1) + r(q, a2) - its own beta KL(pi || ref)",
    conventions={
        **PPO_RLHF.conventions,
        "reward": "the sum of both verdicts for both, at the last decision of each; workflow setting shared = false "
        "gives each its own",
        "value, GAE and whitening": "each agent's own; the other is part of its environment",
        "role exchange": "every 5 steps (the released script's), cast.every",
        "deployment": "the pioneer's answer alone is the team's",
    },
    note="on tables the pioneer's reward at equal KL lies on PPO's curve, not above it as the paper reports",
    workflow="pioneer-observer",
    cast=Swapping(every=5),
    credit=EachAgent(PPO_RLHF.credit, by="policy"),
)

MLPO = GRPO.but(
    name="mlpo",
    title="Multi-agent guided Leader Policy Optimisation",
    source="Estornell et al., How to Train a Leader, arXiv:2507.08960",
    family="teams",
    catalogue_ids=("mlpo",),
    axes=("team", "rollout", "credit"),
    formula="A_i = (r_i - mean r)/(std r + eps) over leader answers to one question and one set of peer answers",
    conventions={
        **GRPO.conventions,
        "who learns": "the leader; peers are the model as it was, or any others by --roles.peer_1.model and endpoint",
        "peer answers": "drawn alike for all samples of a question, so the leader's prompts of round 1 agree",
        "peer tokens": "context: they belong to no learner",
        "alone": "workflow setting alone: the share of questions without peers; 0",
        "warm start": "none; plan: [{recipe: sft, ..}, {recipe: mlpo, ..}] puts one before",
    },
    workflow="leader-peers",
    cast=Leading(),
)

WALTZRL = GRPO.but(
    name="waltzrl",
    title="WaltzRL: conversation and feedback agents trained together",
    source="Zhang et al., The Alignment Waltz, arXiv:2510.08240",
    family="teams",
    catalogue_ids=("waltzrl",),
    axes=("team", "reward"),
    formula="R_f = a (R_c(y_{t+1}) - R_c(y_t)) + b [flag right] + c [well formed];  R_c(y) for each answer y",
    conventions={
        **GRPO.conventions,
        "R_c": "the task's verdict on an answer: 1 iff neither unsafe nor refused without need",
        "weights": "a = 1, b = 0.5, c = 0.1, chosen here; workflow settings improvement, label, form",
        "an answer that is passed": "y_{t+1} = y_t, so its feedback improves nothing",
        "credit": "reward of the turn alone, against the same agent's turns at that place in the scenario's samples",
        "stages": "feedback alone for cast.first = 20 steps, then both",
        "role weights": "one policy each",
    },
    workflow="feedback",
    cast=Alternating(first=20, order=("feedback", "conversation"), together=True),
    credit=TurnRelative(by=GroupBy("scenario", "agent", "turn_index"), baseline="mean", scale="std", gamma=0.0),
)
