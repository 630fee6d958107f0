"""Agents of many turns, and which turn earned it: anchor states, shared edges, turn rewards, beliefs and gates."""

from __future__ import annotations

from hocket.casting import Leading
from hocket.credit import EpisodeAndTurn, GroupRelative, MergedEdges, StepRelative, TurnAndOutcome, TurnRelative
from hocket.objectives import EntropyBonus, EntropyCorridor, KLToReference
from hocket.recipes.group_relative import GRPO
from hocket.rewards import EntropyHistory, GatedAccumulation, InformationGain
from hocket.rollout import WithBeliefs
from hocket.schedules import Linear
from hocket.types import GroupBy

TURNS = {
    "discount": "1; the clock ticks once per turn of the same agent",
    "turn rewards": "at their turn; the reward of the whole trajectory at each agent's last turn",
    "several agents": "turns are compared and discounted agent by agent",
    "tool output": "observation, never a decision: no gradient",
}

GIGPO = GRPO.but(
    name="gigpo",
    title="Group-in-Group Policy Optimisation",
    source="Feng et al., arXiv:2505.10978",
    family="agents",
    catalogue_ids=("gigpo",),
    axes=("credit",),
    formula="A = (R_i - mean R)/(std R + eps) + w (g_t - mean_s g)/(std_s g + eps),  "
    "g_t = sum_{k>=t} gamma^(k-t) r_k,  s: turns that started from the same state",
    conventions={
        **GRPO.conventions,
        **TURNS,
        "discount": "credit.turn.gamma = 0.95 per turn of the same agent",
        "same state": "equal keys, within the scenario; credit.turn.similarity counts similar texts as one",
        "F": "both deviations; null in credit.episode.scale and credit.turn.scale is the authors' other form, F = 1",
        "a state seen once": "A_S = 0",
        "several visits of one trajectory": "each is a member of the state's group",
        "bias": "the paper's mean holds the turn's own return, so rare states are shrunk most; credit.turn.baseline = "
        "others with scale null leaves the own trajectory out and is exactly unbiased",
    },
    credit=EpisodeAndTurn(
        episode=GRPO.credit,
        turn=TurnRelative(by=GroupBy("scenario", "agent", "state"), baseline="mean", scale="std", gamma=0.95),
        weight=1.0,
    ),
)

GIGPO_UNBIASED = GIGPO.but(
    name="gigpo-unbiased",
    title="GiGPO against the other trajectories alone, without deviations",
    formula="A = R_i - mean_{j != i} R_j + w (g_t - mean of g over other trajectories' turns from the same state)",
    conventions={
        **GIGPO.conventions,
        "degrees of freedom": "no deviation is taken",
        "epsilon": "none",
        "F": "1",
        "a state seen once": "A_S = g_t: 0 as baseline is all that is known",
        "bias": "none: sums over decisions / N make the expected step (1 + w) times the policy gradient at gamma = 1",
        "aggregation": "sum over a trajectory's decisions, mean over trajectories",
    },
    **{
        "credit.episode": GroupRelative(scale=None, leave_one_out=True),
        "credit.turn.baseline": "others",
        "credit.turn.scale": None,
        "objective.aggregate": "sequence-sum",
    },
)

SALT = GRPO.but(
    name="salt",
    title="Step-level advantages from the trajectory graph",
    source="Li et al., arXiv:2510.20022",
    family="agents",
    catalogue_ids=("salt",),
    axes=("credit",),
    formula="A(e) = 1/|S_e| sum_{i in S_e} (R_i - mean R)/(std R + eps),  e = (state, action, next state)",
    conventions={
        **GRPO.conventions,
        "several agents": TURNS["several agents"],
        "tool output": TURNS["tool output"],
        "merge rule": "equal state key, action and next state key, within the scenario; an edge crossed twice by one "
        "trajectory counts twice (the paper's public summary says only that shared and distinct steps are told apart)",
        "action": "the entry in the column actions where the workflow gives one, else the tokens",
        "last step": "its next state is the column final_state, else only whether the episode ended or was cut",
    },
    credit=MergedEdges(base=GRPO.credit),
)

MT_GRPO = GRPO.but(
    name="mt-grpo",
    title="Multi-turn GRPO with turn-level advantages",
    source="Zeng et al., arXiv:2505.11821",
    family="agents",
    catalogue_ids=("mt-grpo",),
    axes=("credit", "reward"),
    formula="A = N(R_O) + c N(R_T) before the tool's result, N(R_O) after it,  N(x) = (x - mean x)/(std x + eps)",
    conventions={
        **GRPO.conventions,
        "R_O and R_T": "the reward of the trajectory, and the sum of its turns' rewards from the turn on",
        "before the result": "every turn but the last; a trajectory of one turn never called the tool",
        "no tool result": "N(R_O + c R_T) throughout (the authors weigh this sum by weights of their own)",
        "more than two turns": "each turn before the last has N of the turn rewards from it on, 0 for those who never "
        "come there; the paper has two turns",
        "c": "credit.coefficient = 1",
        "variant": "credit.form = cumulative: N(R_T + gamma R_O) before the result",
        "aggregation": "mean over a trajectory's decisions, then over trajectories (the authors: over all decisions)",
        "tool output": TURNS["tool output"],
        "bias": "with scale null, c = 1 and sums over decisions the expected step is (G - 1)/G of the policy gradient, "
        "however long the policy plays, because everyone enters the mean",
    },
    credit=TurnAndOutcome(),
)

IGPO = GRPO.but(
    name="igpo",
    title="Information Gain-based Policy Optimisation",
    source="Wang et al., arXiv:2510.14967",
    family="agents",
    catalogue_ids=("igpo",),
    axes=("reward", "credit"),
    formula="r_t = b_t - b_{t-1},  b_t = exp(1/|g| sum_j log pi(g_j | h_t, g_<j)),  r_T = R;  "
    "A_t = sum_{k>=t} gamma^(k-t) (r_k - mean r)/(std r + eps)",
    conventions={
        **GRPO.conventions,
        **TURNS,
        "belief": "of the policy that played, at its temperature, after the imposed rollout.phrase; only the answer's "
        "tokens count; detached",
        "several right answers": "the first",
        "order": "rewards are normalised, then summed, as in the authors' code",
        "statistics": "gains and outcomes of all turns of the scenario together",
        "degrees of freedom": "0: the sum of squares is divided by the number of turns, as in the authors' code",
        "discount": "credit.gamma = 1 per turn",
        "bias": "the mean is taken away once per turn still to come, so long episodes lose by it however large the "
        "group is; igpo-unbiased subtracts the other trajectories' mean reward-to-go instead",
    },
    rollout=WithBeliefs(samples=8),
    shaping=(InformationGain(),),
    credit=StepRelative(by=GroupBy("scenario"), scale="std", ddof=0),
)

IGPO_UNBIASED = IGPO.but(
    name="igpo-unbiased",
    title="IGPO against the reward-to-go of the other trajectories that reached the turn",
    formula="A_t = G_t - mean over other trajectories of G_t,  G_t = sum_{k>=t} gamma^(k-t) r_k,  r as in igpo",
    conventions={
        **IGPO.conventions,
        "order": "rewards are summed, then compared turn by turn",
        "statistics": "reward-to-go at the same turn of the other trajectories of the scenario; 0 if none came there",
        "degrees of freedom": "no deviation is taken",
        "epsilon": "none",
        "bias": "none, with sums over decisions: the expected step is the policy gradient",
        "aggregation": "sum over a trajectory's decisions, mean over trajectories",
    },
    credit=TurnRelative(by=GroupBy("scenario", "agent", "turn_index"), baseline="others"),
    **{"objective.aggregate": "sequence-sum"},
)

G_RA = GRPO.but(
    name="g-ra",
    title="Gated Reward Accumulation",
    source="arXiv:2508.10548 (abstract)",
    family="agents",
    catalogue_ids=("g-ra",),
    axes=("reward", "credit"),
    formula="R = R_long + 1[R_long > tau] sum_t r_t,  then GRPO",
    conventions={
        **GRPO.conventions,
        "tau": "combine.thresholds = (0,): any positive outcome opens the gate",
        "what is immediate": "scores of turns and decisions; combine.levels orders named scores instead, each level "
        "counting only while all above it exceed their thresholds (chosen here; the abstract has one gate)",
        "outcome without an opinion": "shuts the gate, as an empty patch does",
        "tool output": TURNS["tool output"],
    },
    combine=GatedAccumulation(),
)

AGENTFLOW = GRPO.but(
    name="agentflow",
    title="Flow-GRPO: a planner trained in the flow",
    source="Li et al., AgentFlow, arXiv:2510.05592",
    family="agents",
    catalogue_ids=("agentflow",),
    axes=("team", "credit", "objective"),
    formula="J = mean_i 1/T_i sum_t 1/|a_t| sum_j min(r A_i, clip(r) A_i) - beta KL,  "
    "A_i = (R_i - mean R)/(std R + eps)",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over a turn's decisions, over an episode's turns, over episodes",
        "baseline": "one return per rollout; credit.by = (scenario, policy) counts one per turn, as the authors' code "
        "does, so that long episodes weigh more in mean and deviation",
        "clipping side": "0.2 below, 0.3 above, as in the authors' settings",
        "KL": "k3 in the loss, coefficient 0.001, averaged like the surrogate",
        "who learns": "the planner; a copy of the model as it was plays executor, verifier and generator",
        "memory": "the workflow agentflow shows the latest lines of what was done and came of it, each cut",
        "bias": "dividing by T_i makes turns of short episodes count more than the policy gradient would; with "
        "objective.aggregate = sequence-sum and credit.scale = null it is (G - 1)/G of it",
    },
    workflow="agentflow",
    cast=Leading(leader="planner"),
    regularisers=(KLToReference("k3", coefficient=0.001, aggregate="sequence-turn-mean"),),
    **{"objective.aggregate": "sequence-turn-mean", "objective.high": 0.3},
)

EPO_ENTROPY = GRPO.but(
    name="epo-entropy",
    title="Entropy-regularised policy optimisation for agents",
    source="Xu et al., EPO, arXiv:2509.22576",
    family="agents",
    catalogue_ids=("epo-entropy",),
    axes=("objective", "credit"),
    formula="L = L_GRPO - lambda H + alpha beta max(0, k_l Hbar_t - H_t, H_t - k_u Hbar_t)",
    conventions={
        **GRPO.conventions,
        "Hbar_t": "the mean over earlier steps of the mean entropy at turn t; a turn nobody had before has none",
        "band": "k_l = 0.8 and k_u = 1.2, as in the authors' settings",
        "penalty": "the distance to the band, so that it has a gradient; the paper's and its code's is a constant "
        "(regularisers.1.form = constant), which trains as a plain bonus",
        "H_t": "the mean over a turn's decisions; regularisers.1.grain = decision takes each alone",
        "beta": "rises from 0 to 1 over the run, weak early and strong late",
        "lambda and alpha": "regularisers.0.coefficient = 0.001 and regularisers.1.coefficient = 0.1",
        "aggregation of entropy": "as the surrogate's: decisions of a trajectory, then trajectories",
    },
    shaping=(EntropyHistory(),),
    regularisers=(
        EntropyBonus(0.001, aggregate="sequence-mean"),
        EntropyCorridor(coefficient=0.1, weight=Linear(0.0, 1.0), aggregate="sequence-mean"),
    ),
)
