"""Advisers that learn beside agents that do not: a strategy before every turn, a plan before the first."""

from __future__ import annotations

from hocket.casting import Leading
from hocket.credit import PlanPairs, TurnRelative
from hocket.objectives import PolicyGradient
from hocket.recipes.conventions import COMMON
from hocket.recipes.policy_gradient import REINFORCE
from hocket.recipes.preference import DPO
from hocket.rewards import DecisiveTurns
from hocket.rollout import JudgedTurns, PlanRuns, ProbedTurns
from hocket.types import GroupBy

EPO_EXPLICIT = REINFORCE.but(
    name="epo-explicit",
    title="Explicit Policy Optimisation: a strategist beside a frozen agent",
    source="Liu et al., arXiv:2502.12486, and the authors' process labels",
    family="agents",
    catalogue_ids=("epo-explicit",),
    axes=("team", "credit", "reward"),
    formula="L = -sum_t A_t mean_i log pi(s_{t,i} | h_t),  A_t = sum_{k>=t} gamma^(k-t) r_k,  "
    "r_t = R if the judge calls the strategy of turn t decisive, else 0",
    conventions={
        **COMMON,
        "aggregation": "mean over the tokens of a strategy, then over all strategies of the batch: the sum over turns "
        "up to a factor",
        "loss": "as recalled: the authors' training code was not found, so baseline and discount are chosen here",
        "baseline": "none",
        "discount": "0.9 per strategy",
        "process labels": "the turn at which the expected score changed most, by 4 episodes from each history; the "
        "authors ask GPT-4o to name decisive ones: rollout.judge = {type: hocket.rollout.NamedBy, judge: "
        "FILE.py:FUNCTION}",
        "score": "the sum of the episode's rewards",
        "who learns": "the adviser; agents are the model as it was, or any others by --roles.policy.model",
        "what is advised": "any workflow: --workflow 'advised?inner=NAME'",
        "iterations": "every step samples with the weights as they are; no supervised start",
    },
    note="the other side is the environment's or a frozen model's: in self-play of two advised agents both are paid "
    "the one score of the episode, not each its own",
    workflow="advised",
    cast=Leading(leader="adviser", others="actor"),
    rollout=JudgedTurns(samples=8, judge=ProbedTurns(rollouts=4, by="change"), role="adviser"),
    shaping=(DecisiveTurns(),),
    credit=TurnRelative(by=GroupBy("scenario", "agent", "turn_index"), baseline="none", gamma=0.9),
    objective=PolicyGradient(aggregate="turn-mean"),
)

MPO_META_PLAN = DPO.but(
    name="mpo-meta-plan",
    title="Meta Plan Optimisation: a planner beside a frozen agent",
    source="Xiong et al., MPO, arXiv:2503.02682, and the authors' scripts",
    family="agents",
    catalogue_ids=("mpo-meta-plan",),
    axes=("team", "search", "objective"),
    formula="L = -mean_tasks log sigmoid(beta (d(m_w) - d(m_l))),  d(m) = log pi(m | x) - log pi_ref(m | x),  "
    "m_w, m_l = argmax, argmin of Q(m) = (1/N) sum_n R(run n with plan m)",
    conventions={
        **DPO.conventions,
        "aggregation": "log-probs summed over a plan's decisions, mean over pairs",
        "plans": "5 per scenario, 5 runs of each; plans drawn twice are one with all their runs",
        "pairs": "one per scenario, highest against lowest Q, the first of equals",
        "group of one": "one plan drawn five times: no pair",
        "constant group": "all plans worth the same: no pair",
        "who learns": "the planner, role adviser; agents are the model as it was, or others by --roles.policy.model",
        "what is planned for": "any workflow: --workflow 'advised?every=false&lead=Plan&inner=NAME'",
        "supervised start": "a phase before, on metadata['demonstration']: SFT.but(name='plans', workflow=.., cast=..) "
        "with this recipe's workflow and cast, which teaches the first role",
        "reference": "the planner as it was when this phase began, so after its supervised start",
        "data": "new plans in every step; the authors sample once and train offline",
    },
    workflow="advised?every=false&lead=Plan",
    cast=Leading(leader="adviser", others="actor"),
    rollout=PlanRuns(plans=5, runs=5),
    credit=PlanPairs(),
)
