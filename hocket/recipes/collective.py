"""Teams without labels or with mixed motives: a public good, the vote of a crowd, a coach and its player."""

from __future__ import annotations

from hocket.casting import Separate
from hocket.credit import Apart, EachAgent, ReturnToGo, TurnRelative
from hocket.curriculum import Invented
from hocket.objectives import KLToReference
from hocket.recipes.actor_critic import PPO
from hocket.recipes.group_relative import GRPO
from hocket.rewards import CrowdReward, LearningProgress
from hocket.rollout import WithinBand
from hocket.types import GroupBy

MAC_SPGG = PPO.but(
    name="mac-spgg",
    title="Multi-Agent Cooperation by a Sequential Public Goods Game",
    source="Liang et al., Everyone Contributes!, arXiv:2508.02076",
    family="teams",
    catalogue_ids=("mac-spgg",),
    axes=("team", "reward"),
    formula="u_i = rho/n sum_j q_j - k e_i + g q_i [sum_j q_j >= B];  each agent: PPO on its own u_i",
    conventions={
        **PPO.conventions,
        "payoff": "chosen here: the paper's abstract gives none; without B all is dominant iff g > k - rho/n",
        "contribution": "q_i, the task's verdict on the answer of agent i, which reads all earlier answers",
        "effort": "e_i, the share of the allowed tokens; workflow setting effort = quality makes it q_i, the game's",
        "weights": "rho = 1.5, k = 1, g = 1, B = 0, n = 3; workflow settings",
        "belief": "no model of its own: the agent's policy and value function read the earlier answers",
        "value, GAE and whitening": "each agent's own; the others are part of its environment",
        "role weights": "one policy each",
    },
    workflow="public-goods",
    cast=Separate(),
    credit=EachAgent(PPO.credit, by="policy"),
)

RLCCF = GRPO.but(
    name="rlccf",
    title="Reinforcement Learning from Coevolutionary Collective Feedback",
    source="Yuan et al., Wisdom of the Crowd, arXiv:2508.12338",
    family="teams",
    catalogue_ids=("rlccf",),
    axes=("reward", "team", "rollout"),
    formula="a* = argmax_a sum_m sc_m count_m(a),  r = 1[answer = a*];  each model: GRPO on its own samples",
    conventions={
        **GRPO.conventions,
        "labels": "none are used",
        "self-consistency": "sc_m = max_a count_m(a)/K, chosen here: the abstract names it without a formula",
        "ties": "the answer given first: earliest sample, then earliest model; shaping.0.ties=all takes all",
        "no answer": "reward 0, no vote, counted in K",
        "models": "one policy per voter, roles.NAME.model gives it other weights; with --cast shared all are one model",
        "role weights": "one policy each",
    },
    workflow="crowd-vote",
    cast=Separate(),
    shaping=(CrowdReward(),),
    credit=EachAgent(GRPO.credit, by="role"),
)

CPMOBIUS = GRPO.but(
    name="cpmobius",
    title="CPMobius: Coach and Player without data",
    source="Li et al., arXiv:2602.02979, and the authors' code",
    family="teams",
    catalogue_ids=("cpmobius",),
    axes=("team", "data", "reward"),
    formula="Player: GRPO on r = +1 for the one most frequent of n answers, else -1;  "
    "Coach: A = 100 (accuracy after - accuracy before the Player's update) on every problem of the batch",
    conventions={
        **GRPO.conventions,
        "labels": "only of the first 40 problems of the task's eval split, answered greedily (rewards.0.problems)",
        "batch": "8 problems of 16 solutions each; 256 in the code",
        "band": "0.2 to 0.8 of the solutions rewarded; asked for 4 times at most, then with what there is, never empty",
        "ties, no answer": "-1",
        "Coach": "no baseline, as a group of one has none; on tables it needs rewards.0.momentum, a running mean, "
        "and an entropy bonus to beat a uniform Coach",
        "no progress": "the Coach is not updated where the change is exactly 0",
        "KL": "k3 in the loss, coefficient 0.001; the code's entropy bonus for the Coach, 0.01, is left out",
        "role weights": "one policy each",
    },
    workflow="coach-player",
    cast=Separate(),
    curriculum=Invented(prompts=8),
    rollout=WithinBand(samples=1, low=0.2, high=0.8),
    rewards=(LearningProgress(),),
    credit=Apart(
        role="coach",
        own=ReturnToGo(),
        credit=TurnRelative(by=GroupBy("scenario", "agent", "state"), baseline="mean", scale="std", gamma=0.0),
    ),
    regularisers=(KLToReference("k3", coefficient=0.001, aggregate="sequence-mean"),),
)
