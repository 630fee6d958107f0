"""GRPO and its relatives: samples of one scenario are each other's baseline. Each member shows what it changes."""

from __future__ import annotations

from hocket.credit import GroupRelative, TruncatedImportance
from hocket.objectives import ClippedImportanceWeight, ClippedSurrogate, KLToReference
from hocket.objectives.aggregate import HORIZON
from hocket.recipe import Recipe
from hocket.recipes.conventions import GROUP
from hocket.rewards import OverlongPenalty
from hocket.rollout import DynamicSampling, Independent
from hocket.types import GroupBy

GRPO = Recipe(
    name="grpo",
    title="Group Relative Policy Optimisation",
    source="DeepSeekMath, arXiv:2402.03300",
    family="group-relative",
    catalogue_ids=("grpo",),
    axes=("credit", "objective"),
    formula="A_i = (R_i - mean_g R)/(std_g R + eps),  L = -1/N sum_i 1/n_i sum_t min(r_it A_i, clip(r_it) A_i)",
    conventions={
        **GROUP,
        "aggregation": "mean over a trajectory's decisions, then over trajectories",
        "clipping side": "both, 0.2",
        "KL": "coefficient 0, so left out, as most codebases now default; grpo-kl has the paper's 0.04",
    },
    rollout=Independent(samples=8),
    credit=GroupRelative(by=GroupBy("scenario"), scale="std"),
    objective=ClippedSurrogate(low=0.2, high=0.2, aggregate="sequence-mean"),
)

GRPO_KL = GRPO.but(
    name="grpo-kl",
    title="GRPO with the KL term of its paper",
    catalogue_ids=("grpo",),
    formula=GRPO.formula + " + beta 1/N sum_i 1/n_i sum_t (ref/pi - log(ref/pi) - 1)",
    conventions={**GRPO.conventions, "KL": "k3 in the loss, coefficient 0.04; its gradient is that of KL(ref || pi)"},
    regularisers=(KLToReference("k3", coefficient=0.04, aggregate="sequence-mean"),),
)

GRPO_TIS = GRPO.but(
    name="grpo-tis",
    title="GRPO with truncated importance weights between sampler and learner",
    source="Yao et al. 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training",
    formula=GRPO.formula + " weighted by min(pi_learner/pi_sampler, 2)",
    conventions={
        **GRPO.conventions,
        "old policy": "the learner's own log-probs before the update; the sampler's enter the weight alone",
        "importance weight": "per decision, at most 2; denominators are unchanged",
    },
    correction=TruncatedImportance(cap=2.0, level="decision"),
)

DR_GRPO = GRPO.but(
    name="dr-grpo",
    title="GRPO done right",
    source="Liu et al., Understanding R1-Zero-Like Training, arXiv:2503.20783",
    catalogue_ids=("dr-grpo",),
    formula="A_i = R_i - mean_g R,  L = -1/N sum_i 1/L sum_t min(r_it A_i, clip(r_it) A_i)",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "no deviation is taken",
        "epsilon": "none",
        "aggregation": f"sum over decisions / (N L), L = objective.horizon = {HORIZON}, never the batch's own width",
    },
    **{"credit.scale": None, "objective.aggregate": "constant-length", "objective.horizon": HORIZON},
)

DAPO = GRPO.but(
    name="dapo",
    title="Decoupled Clip and Dynamic Sampling Policy Optimisation",
    source="Yu et al., arXiv:2503.14476",
    formula="A_i = (R_i - mean_g R)/(std_g R + eps),  L = -1/sum_i n_i sum_i sum_t min(r A, clip(r, 1-0.2, 1+0.28) A)",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over all decisions of the batch",
        "clipping side": "0.2 below, 0.28 above",
        "KL": "none, as in the paper",
        "constant group": "discarded and asked again, at most 3 rounds",
        "truncated samples": f"soft penalty over the last fifth before shaping.0.limit = {HORIZON} decisions, -1 at it",
    },
    rollout=DynamicSampling(samples=8, max_rounds=3),
    shaping=(OverlongPenalty(limit=HORIZON, buffer=HORIZON // 5, penalty=1.0),),
    **{"objective.high": 0.28, "objective.aggregate": "token-mean"},
)

GSPO = GRPO.but(
    name="gspo",
    title="Group Sequence Policy Optimisation",
    source="Zheng et al., arXiv:2507.18071",
    formula="s_i = exp(1/n_i sum_t log r_it),  L = -1/N sum_i min(s_i A_i, clip(s_i, 1-3e-4, 1+4e-4) A_i)",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over trajectories; their lengths enter s_i alone",
        "clipping side": "3e-4 below, 4e-4 above, whole trajectories",
        "KL": "none",
        "advantages that differ within a trajectory": "each decision's clipped term, then their mean",
    },
    **{"objective.ratio": "sequence", "objective.low": 3e-4, "objective.high": 4e-4},
)

GSPO_TOKEN = GSPO.but(
    name="gspo-token",
    title="GSPO differentiated decision by decision",
    formula="s_it = sg[s_i] pi_it/sg[pi_it],  L = -1/N sum_i 1/n_i sum_t min(s_it A_it, clip(s_it) A_it)",
    conventions={**GSPO.conventions, "detached": GSPO.conventions["detached"] + "; so is s_i"},
    **{"objective.ratio": "sequence-token"},
)

CISPO = GRPO.but(
    name="cispo",
    title="Clipped Importance Sampling Policy Optimisation",
    source="MiniMax-M1, arXiv:2506.13585",
    formula="L = -1/sum_i n_i sum_i sum_t sg[min(r_it, 1 + high)] A_i log pi_it",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over all decisions of the batch",
        "clipping side": "above alone, weight at most 1 + 4 (the paper gives no number; ScaleRL's order of magnitude)",
        "detached": GRPO.conventions["detached"] + "; so is the clipped ratio",
        "KL": "none, as in the paper",
        "sampling": "plain groups; the paper adds DAPO's dynamic sampling and length penalty",
    },
    objective=ClippedImportanceWeight(low=None, high=4.0, aggregate="token-mean"),
)
