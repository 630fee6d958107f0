"""GRPO: samples of one prompt are each other's baseline (DeepSeekMath, arXiv:2402.03300).

In place of PPO's critic a sample's return is compared with mean and deviation of its group (`GroupRelative` of
`hocket.credit.group`), and the clipped surrogate takes it at every token. Variants: the paper's KL term, weights for a
sampler that differs from the learner, rewards of single steps (`StepRelative`), and a reference renewed each round.
"""

from __future__ import annotations

from hocket.core.batch import GroupBy
from hocket.credit.corrections import TruncatedImportance
from hocket.credit.group import GroupRelative, StepRelative
from hocket.methods.base.conventions import GROUP
from hocket.objectives.divergence import KLToReference
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent

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


GRPO_PROCESS = GRPO.but(
    name="grpo-process",
    title="GRPO with process supervision",
    source="DeepSeekMath, arXiv:2402.03300, section 4.1.3",
    catalogue_ids=("grpo",),
    formula="A_it = sum_{steps j ending at or after t} (r_ij - mean r)/(std r + eps), over every step of the group",
    conventions={
        **GRPO.conventions,
        "step": "a segment of a turn, else the turn; its reward is all that is earned in it",
        "degrees of freedom": "1: the sum of squares is divided by the number of the group's steps - 1",
        "group of one": "compared are its own steps; with one step, advantage 0",
        "constant group": "advantage 0 when all step rewards are equal",
    },
    credit=StepRelative(),
)


GRPO_ITERATIVE = GRPO_KL.but(
    name="grpo-iterative",
    title="Iterative GRPO",
    source="DeepSeekMath, arXiv:2402.03300, algorithm 1",
    catalogue_ids=("grpo",),
    conventions={
        **GRPO_KL.conventions,
        "rounds": "phases of a plan, plan = [{recipe: grpo-iterative, steps: N}, ...]; the reference is the policy as "
        "it was when its phase began",
        "reward model": "retrained every N steps on pairs of new samples and a tenth of earlier ones by "
        "`--reward model:RUN?every=N`, by what the task says of them",
    },
)


UNSCALED = {
    **GRPO.conventions,
    "degrees of freedom": "no deviation is taken (credit.scale = std would)",
    "epsilon": "none",
}
