"""Other statistics of a group: where the mean comes from, what it is divided by, and how much the group counts."""

from __future__ import annotations

from hocket.credit import (
    BetaDensity,
    Difficulty,
    EachScore,
    GroupRelative,
    MixedDeviation,
    NoiseAware,
    ReferenceMargin,
    RememberedBaseline,
    SemanticEntropy,
    SignalShare,
    StepRelative,
)
from hocket.objectives import PolicyGradient
from hocket.recipes.group_relative import DR_GRPO, GRPO, GRPO_KL
from hocket.rollout import DynamicSampling, Independent, WithReference
from hocket.update import GradientStep

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
    },
    note="the reference is reset each round; retraining a reward model with replay between rounds is open",
)

TWO_GRPO = GRPO.but(
    name="two-grpo",
    title="2-GRPO: groups of two",
    source="It Takes Two: Your GRPO Is Secretly DPO, arXiv:2510.00977",
    catalogue_ids=("two-grpo",),
    axes=("rollout", "credit", "analysis"),
    formula="G = 2: A = +1, -1 where the rewards differ and 0 where they agree; loss as GRPO",
    conventions={**GRPO.conventions, "degrees of freedom": "0, so that a decided pair has advantages +1 and -1"},
    **{"rollout.samples": 2, "credit.ddof": 0},
)

GPG = GRPO.but(
    name="gpg",
    title="Group Policy Gradient",
    source="Chu et al., arXiv:2504.02546",
    catalogue_ids=("gpg",),
    formula="L = -alpha/sum_i n_i sum_i sum_t (R_i - mean_g R) log pi_it,  alpha = B/(B - M)",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "no deviation is taken (F_norm = 1); credit.scale = std is the paper's other choice",
        "epsilon": "none",
        "aggregation": "mean over all decisions of the batch",
        "clipping side": "none: no ratio, so one update per batch",
        "KL": "none, as in the paper",
        "alpha": "B trajectories over those in groups whose rewards differ, as in the authors' code; not bounded",
        "constant group": "advantage 0; asked again while fewer than 0.6 of the groups have signal, at most 3 rounds",
    },
    rollout=DynamicSampling(samples=8, max_rounds=3, enough=0.6),
    credit=GroupRelative(scale=None, weigh=(SignalShare(),)),
    objective=PolicyGradient(aggregate="token-mean"),
)

LOOP = GRPO.but(
    name="loop",
    title="Leave-One-Out PPO",
    source="Chen et al., Reinforcement Learning for Long-Horizon Interactive LLM Agents, arXiv:2502.01600",
    catalogue_ids=("loop",),
    formula="A_i = R_i - 1/(K-1) sum_{j != i} R_j,  L = -1/N sum_i 1/n_i sum_t min(r_it A_i, clip(r_it) A_i)",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "no deviation is taken",
        "epsilon": "none",
        "aggregation": "mean over the decisions that the agent made in a trajectory, then over trajectories",
        "KL": "none: no reference and no critic, one set of weights",
        "environment tokens": "observations, never decisions; imposed ones have weight 0",
        "updates per batch": "2 epochs of 2 mini-batches (the paper leaves the numbers open)",
    },
    rollout=Independent(samples=6),
    update=GradientStep(epochs=2, minibatches=2),
    **{"credit.scale": None, "credit.leave_one_out": True},
)

MAPO = GRPO.but(
    name="mapo",
    title="Mixed Advantage Policy Optimisation",
    source="Huang et al., arXiv:2509.18849",
    catalogue_ids=("mapo",),
    formula="A = (1 - lam)(R - mu)/(sigma + eps) + lam (R - mu)/(mu + eps),  lam = 1 - 4p(1 - p)",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "1, as in the release: credit.weigh.0.ddof",
        "epsilon": "1e-6, added to sigma and to mu",
        "certainty": "p is the share of returns above 0.5 (the release counts rewards equal to 1)",
        "mean not positive": "no relative part",
    },
    credit=GroupRelative(scale=None, weigh=(MixedDeviation(),)),
)

BNPO = GRPO.but(
    name="bnpo",
    title="Beta Normalisation Policy Optimisation",
    source="Xiao et al., arXiv:2506.02864",
    catalogue_ids=("bnpo",),
    formula="A_i = (R_i - p)/Beta_pdf(p; alpha, beta),  alpha = max(1, 1 + a/3), beta = max(1, 1 + b/3)",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "1, of the variance of the groups' means that the fit takes",
        "epsilon": "none; the factor is at most 1e6, as in the release",
        "fit": "p ~ Beta(a, b) by moments over the batch's groups; 1, 1 for fewer than two groups or equal means",
        "range": "rewards are mapped from [least, most] = [0, 1] to [0, 1]; means beyond are clamped",
        "several rewards": "credit.scores names those that each get their own advantage; the mean of them counts",
    },
    credit=EachScore(credit=GroupRelative(scale=None, weigh=(BetaDensity(),))),
)

NGRPO = GRPO.but(
    name="ngrpo",
    title="Negative-enhanced GRPO",
    source="Nan et al., arXiv:2509.18851",
    catalogue_ids=("ngrpo",),
    formula="A_i = (R_i - mean(R_1..R_G, R_max))/(std(R_1..R_G, R_max) + eps),  clip(r, 1 - 0.16, 1 + 0.24)",
    conventions={
        **GRPO.conventions,
        "virtual sample": "one of return credit.virtual = [1.0] per group, the largest reward of the task",
        "degrees of freedom": "1: the sum of squares over G + 1 is divided by G",
        "group of one": "compared with the virtual sample",
        "constant group": "advantage 0 at the largest reward, negative below it",
        "clipping side": "0.16 below, 0.24 above (the released script)",
    },
    **{"credit.virtual": (1.0,), "objective.low": 0.16, "objective.high": 0.24},
)

S_GRPO_NOISE = GRPO.but(
    name="s-grpo-noise",
    title="Stable GRPO: noise-aware advantages",
    source="Mitigating Think-Answer Mismatch in LLM Reasoning, arXiv:2508.05928",
    catalogue_ids=("s-grpo-noise",),
    formula="A_i' = w A_i,  w = (1-2p) t(1-t)/(sqrt(q(1-q)+e) sqrt(t(1-t)+e)),  t = clip((q-p)/(1-2p), 0, 1)",
    conventions={
        **GRPO.conventions,
        "noise": "labels are flipped with probability credit.weigh.0.flip = 0.15 (the paper's); q is the "
        "share of returns above halfway between the batch's lowest and highest",
        "epsilon": GRPO.conventions["epsilon"] + "; e = 1e-8 inside the roots of w",
    },
    **{"credit.weigh": (NoiseAware(flip=0.15),)},
)

SEED_GRPO = DR_GRPO.but(
    name="seed-grpo",
    title="Semantic-entropy-enhanced GRPO",
    source="Chen et al., arXiv:2505.12346",
    catalogue_ids=("seed-grpo",),
    formula="A_i = (R_i - mean_g R)(1 - alpha SE/log G),  SE = -1/K sum_k log p_k over K clusters of equal answers",
    conventions={
        **DR_GRPO.conventions,
        "clusters": "equal final answers; a sample without an answer is like no other",
        "share of a cluster": "its part of the likelihoods of the group's samples under the sampling policy",
        "damping": "linear (the paper names linear, exponential and focal), alpha 0.02 (the paper's), SE at most log G",
        "group of one": "advantage 0",
    },
    **{"credit.weigh": (SemanticEntropy(alpha=0.02),)},
)

VITAL_DGRPO = GRPO.but(
    name="vital-dgrpo",
    title="Difficulty-aware GRPO",
    source="Zhang et al., Thinking With Videos, arXiv:2508.04416",
    catalogue_ids=("vital-dgrpo",),
    formula="A_i' = w_g (R_i - mean_g R)/(std_g R + eps),  w_g ~ exp(-kappa mean_g R), mean 1 over the batch",
    conventions={
        **GRPO.conventions,
        "difficulty": "the group's mean reward; the weight's form is our choice, kappa = credit.weigh.0.strength = 1",
    },
    note="shown on text with a tool that looks frames up in a list of integers; its modality comes later",
    **{"credit.weigh": (Difficulty(strength=1.0),)},
)

PVPO = GRPO.but(
    name="pvpo",
    title="Pre-estimated Value-based Policy Optimisation",
    source="Feng et al., arXiv:2508.21104",
    catalogue_ids=("pvpo",),
    axes=("rollout", "credit", "data"),
    formula="A_i = R_i - 1/M sum_m R(reference's sample m of the scenario), loss as GRPO",
    conventions={
        **GRPO.conventions,
        "degrees of freedom": "no deviation is taken",
        "epsilon": "none",
        "group of one": "as any other: the baseline is not its own",
        "constant group": "as any other: the reference may differ",
        "baseline": "M = rollout.references samples of the policy before training, at a scenario's first visit",
        "missing baseline": "the scenario's trajectories are left out",
        "solved": "scenarios on which every reference sample earns the same, at least 1, are dropped",
        "unsolved": "while nobody has earned anything, the scenario's demonstration, if it has one, replaces a sample",
    },
    rollout=WithReference(samples=8, references=8, once=True, solved=1.0, inject=True),
    credit=RememberedBaseline(),
)

AAPO = GRPO.but(
    name="aapo",
    title="Advantage-Augmented Policy Optimisation",
    source="Xiong et al., arXiv:2505.14264",
    catalogue_ids=("aapo",),
    formula="A_i' = A_i + clip(R_i - R_ref_i, -0.2, 0.28),  L = -1/sum_i n_i sum_i sum_t A_i' log pi_it",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over all decisions of the batch",
        "clipping side": "no ratio; the margin is clipped to [-0.2, 0.28]",
        "KL": "none, as in the paper",
        "group of one": "the margin alone",
        "constant group": "the margin alone",
        "reference": "the policy as it was before training; its i-th sample meets the i-th of the policy",
    },
    rollout=WithReference(samples=8, references=8),
    credit=ReferenceMargin(credit=GroupRelative()),
    objective=PolicyGradient(aggregate="token-mean"),
)
