"""Teams of agents, and who of them earned it: candidates per turn, modules, workers, seats, chains and pipelines."""

from __future__ import annotations

from hocket.casting import Alternating, Separate
from hocket.credit import AgentGAE, ModuleRelative, PromptRelative, RankConsistent, TurnRelative
from hocket.objectives import ClippedSurrogate, TurnSurrogate, ValueLoss
from hocket.recipes.actor_critic import PPO
from hocket.recipes.group_relative import GRPO
from hocket.rewards import WeightedSum
from hocket.rollout import AgentTurnTree
from hocket.types import GroupBy

TOOLS = "observation, never a decision: no gradient; so is what another agent said"
PER_TURN = "mean over the decisions of a turn, then over all turns that count"

REMA = GRPO.but(
    name="rema",
    title="Reinforced Meta-thinking Agents",
    source="Wan et al., arXiv:2503.09501, and the authors' code",
    family="teams",
    catalogue_ids=("rema",),
    axes=("team", "credit", "objective"),
    formula="L = -1/N sum_i 1/K_i sum_k max(min(rho_k A, clip(rho_k) A), [A < 0] c A),  "
    "rho_k = exp(min(1/|y_k| sum_j log r_kj, 3))",
    conventions={
        **GRPO.conventions,
        "ratio": "one per turn: the geometric mean of its token ratios; objective.mean = arithmetic is the paper's",
        "cap": "3 on a turn's mean log-ratio, no gradient above",
        "clipping side": "both, 0.2; dual clip at 3 for negative advantages",
        "aggregation": "mean over the turns of a trajectory, then over trajectories",
        "rewards": "one reward of the trajectory for both levels; format rewards are the workflow's",
        "who learns": "one policy per role, 10 steps each in turn; with --cast shared both prompts train one policy",
    },
    workflow="meta-reasoner",
    cast=Alternating(every=10),
    objective=TurnSurrogate(low=0.2, high=0.2, dual=3.0, cap=3.0, mean="geometric", aggregate="sequence-turn-mean"),
)

AT_GRPO = GRPO.but(
    name="at-grpo",
    title="Agent- and turn-wise grouped GRPO",
    source="Zhao et al., Stronger Together, arXiv:2510.11062, and the authors' code",
    family="teams",
    catalogue_ids=("at-grpo",),
    axes=("team", "credit", "rollout"),
    formula="A_k = (r_k - mean_g r)/(std_g r + 1e-8),  r = alpha r_team + r_own,  g: candidates of one agent's turn",
    conventions={
        **GRPO.conventions,
        "epsilon": "1e-8, added to the standard deviation",
        "group": "answers of one agent to an identical prompt of one scenario; a turn answered once gets 0",
        "candidates": "4 per question a workflow asks by agent.candidates; the best goes on, the earliest of equals",
        "rewards": "of the turn alone where candidates were scored; alpha = 1 in rollout.alpha",
        "no candidates": "a workflow that asks for none is played 4 times, which with one turn is GRPO",
        "aggregation": PER_TURN,
        "who learns": "one policy for all roles; cast hocket.casting.Separate gives each its own",
    },
    rollout=AgentTurnTree(candidates=4, take="best", alpha=1.0),
    credit=PromptRelative(scale="std", ddof=1, epsilon=1e-8),
    **{"objective.aggregate": "turn-mean"},
)

MMGRPO = GRPO.but(
    name="mmgrpo",
    title="Multi-module GRPO",
    source="Ziems et al., arXiv:2508.04660, and dspy.GRPO",
    family="teams",
    catalogue_ids=("mmgrpo",),
    axes=("credit", "rollout", "team"),
    formula="A_i = (R_i - mean_g R)/(std_g R + eps),  g = (x, m, k): the k-th calls of module m in the rollouts of x",
    conventions={
        **GRPO.conventions,
        "module": "a role of the workflow; all share one policy",
        "uneven counts": "groups as long as the fewest calls; credit.counts = fill-random, fill-last or ragged",
        "never called": "in one rollout: the input is left out for that module",
        "format failure": "turn score `format` below 1, the share that could be read: R on the way from -1 to 0, and "
        "no other call of that rollout is learnt from",
        "lost rollouts": "groups are left smaller; credit.group_size repeats members from the first on",
        "aggregation": PER_TURN + "; a repeated call counts as often as it stands in groups",
    },
    note="the library optimises no prompts yet; the check picks an instruction by what it earns, then trains",
    combine=WeightedSum({"format": 0.0}),
    credit=ModuleRelative(counts="truncate"),
    **{"objective.aggregate": "turn-mean"},
)

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
        "tool output": TOOLS,
        "rewards": "the task's; the released setup has 0.9 accuracy + 0.1 tool format",
        "aggregation": "mean over all decisions of planner and workers, then over rollouts",
        "who learns": "one policy, told apart by system prompts",
    },
    workflow="planner-worker",
)

MARS_SELF_PLAY = GRPO.but(
    name="mars-self-play",
    title="Self-play with turn-level credit, normalised by seat (MARS, also MARSHAL)",
    source="Yuan et al., arXiv:2510.15414, and the authors' code",
    family="teams",
    catalogue_ids=("mars-self-play",),
    axes=("team", "credit", "environment"),
    formula="A_k = R_k - mean R over the turns of the same seat,  R_k = sum_{j>=k} r_j over the seat's own turns",
    conventions={
        **GRPO.conventions,
        "reward": "of a turn, at its last decision; a seat is credited with its own turns' rewards alone",
        "normalisation": "mean of the batch's turns of the same role; credit.by = [scenario, role] keeps games apart",
        "degrees of freedom": "no deviation is taken; credit.scale = std divides by it",
        "epsilon": "none",
        "malformed moves": "the environment's: they lose the game at once",
        "aggregation": PER_TURN,
        "who learns": "one policy plays all seats",
    },
    note="exploitability falls, but no faster than with a baseline pooled over the seats (Kuhn poker, tic-tac-toe)",
    credit=TurnRelative(by=GroupBy("role"), baseline="mean", scale=None),
    objective=ClippedSurrogate(low=0.2, high=0.2, aggregate="turn-mean"),
)

MARFT = PPO.but(
    name="marft",
    title="Multi-agent reinforcement fine-tuning, a ratio per utterance",
    source="Liao et al., arXiv:2504.16129, and the authors' code",
    family="teams",
    catalogue_ids=("marft",),
    axes=("team", "objective", "policy"),
    formula="A_m = delta_m + g lam A_{m+1},  delta_m = r_m + g V(next agent's input) - V(own input);  "
    "L = -mean_m min(r_m A_m, clip(r_m) A_m) + 1/2 mean (V - y)^2,  r_m = prod_t r_mt",
    conventions={
        **PPO.conventions,
        "order": "that in which the agents of a trajectory acted; a step ends where one acts again",
        "discount": "0.99 from step to step, none within (the released code: also between the agents of a step)",
        "value": "of every policy by its own head, before the first decision of a turn; targets for all of the turn's",
        "whitening": "advantages over the batch's turns, ddof 0, epsilon 1e-8",
        "clipping side": "both, 0.2; values too, 0.2",
        "aggregation": PER_TURN + "; values over all decisions",
        "small updates": "a step ends once KL(before || now) exceeds 1e-3 nats; the code skips the update that would",
        "entropy": "no bonus",
        "who learns": "one policy per role (adapters on one base with --lora), all at once",
    },
    cast=Separate(),
    credit=AgentGAE(level="action", gamma=0.99, lam=0.95),
    objective=TurnSurrogate(low=0.2, high=0.2, dual=None, cap=None, mean="product", aggregate="turn-mean"),
    regularisers=(ValueLoss(coefficient=0.5, clip=0.2, aggregate="token-mean"),),
    **{"update.target_kl": 1e-3},
)

MARFT_TOKEN = MARFT.but(
    name="marft-token",
    title="Multi-agent reinforcement fine-tuning, a ratio per token",
    catalogue_ids=("marft",),
    formula="A_t = delta_t + g lam A_{t+1} along the decisions of all agents,  L = PPO with a ratio per decision",
    conventions={
        **MARFT.conventions,
        "discount": "0.99 from step to step, none within, none from token to token (the released code: everywhere)",
        "value": "of every policy by its own head, before each decision",
        "whitening": "advantages over the batch's decisions, ddof 0, epsilon 1e-8",
        "aggregation": "mean over all decisions of the batch",
    },
    objective=ClippedSurrogate(low=0.2, high=0.2, aggregate="token-mean"),
    **{"credit.level": "token"},
)

COMAM = GRPO.but(
    name="comam",
    title="Local and global rewards mixed by rank consistency",
    source="Mao et al., Collaborative Multi-Agent Optimization for Personalized Memory System, arXiv:2603.12631",
    family="teams",
    catalogue_ids=("comam",),
    axes=("credit", "team", "reward"),
    formula="A_ki = (R_ki - mean_g R_k)/(std_g R_k + eps),  R_ki = l_ki + w_k g_i,  w = softmax_k(D_k),  "
    "D_k: Somers' D of l_k given g over the group",
    conventions={
        **GRPO.conventions,
        "local and global": "the rewards of an agent's own turns, and that of the trajectory",
        "consistency": "share of pairs ordered alike less share ordered otherwise, among pairs whose global rewards "
        "differ; a constant global reward gives equal weights (the abstract names no statistic)",
        "normalisation over agents": "softmax, temperature 1",
        "aggregation": PER_TURN,
    },
    note="an agent that its own reward misleads strongly is paid least for the whole, so equal shares win there",
    credit=RankConsistent(),
    **{"objective.aggregate": "turn-mean"},
)
