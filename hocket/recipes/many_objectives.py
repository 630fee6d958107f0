"""Judges that err, and several objectives at once: what becomes of scores before credit is given."""

from __future__ import annotations

from hocket.credit import ReturnToGo
from hocket.curriculum import FormatStages
from hocket.objectives.aggregate import HORIZON
from hocket.recipes.group_relative import GRPO
from hocket.recipes.supervised import SFT
from hocket.rewards import (
    AppealedCorrection,
    Checklist,
    ExactMatch,
    FormatGrade,
    FrozenScale,
    Gated,
    KLInReward,
    LanguageShare,
    LengthBand,
    NoiseCorrection,
    NormalisedSum,
    RuleOverModel,
    WeightedByTask,
    WeightedSum,
)
from hocket.rewards.router import ROUTES
from hocket.rollout import Selected, WithAppeals

UNSCALED = {
    **GRPO.conventions,
    "degrees of freedom": "no deviation is taken (credit.scale = std would)",
    "epsilon": "none",
}

# ---------------------------------------------------------------- verifiers that err

NOISY_VERIFIER = GRPO.but(
    name="noisy-verifier-correction",
    title="Backward correction of a noisy verifier",
    source="Reinforcement Learning with Verifiable yet Noisy Rewards under Imperfect Verifiers, arXiv:2510.00915",
    catalogue_ids=("noisy-verifier-correction",),
    axes=("reward", "objective", "analysis"),
    formula="r_hat = (r - rho0)/(1 - rho0 - rho1),  A_i = r_hat_i - mean_g r_hat",
    conventions={
        **UNSCALED,
        "scale": "none: a group's deviation would cancel the correction exactly where rates are constant in a group",
        "rates": "shaping.0.false_positive and .false_negative, 0.1 until told; answers may tell their own",
    },
    shaping=(NoiseCorrection("backward", false_positive=0.1, false_negative=0.1),),
    **{"credit.scale": None},
)

NOISY_VERIFIER_FORWARD = NOISY_VERIFIER.but(
    name="noisy-verifier-forward",
    title="Forward correction of a noisy verifier",
    catalogue_ids=("noisy-verifier-correction",),
    formula="w(1) = rho1, w(0) = rho1 - 1 in place of the advantage; E[w | r*] = (1 - rho0 - rho1)(r* - 1)",
    conventions={
        **NOISY_VERIFIER.conventions,
        "scale": "no baseline, no deviation: w is r - (1 - rho1), so any centring within a group would cancel it",
        "constant group": "no statistic is taken: right answers of such a group get rho1, wrong ones rho1 - 1",
        "group of one": "as any other",
    },
    shaping=(NoiseCorrection("forward", false_positive=0.1, false_negative=0.1),),
    credit=ReturnToGo(),
)

NOISY_VERIFIER_APPEALS = NOISY_VERIFIER_FORWARD.but(
    name="noisy-verifier-appeals",
    title="Forward correction with the false-negative rate estimated by appeals",
    catalogue_ids=("noisy-verifier-correction",),
    formula="rho1 = FN/(FN + accepted), FN = rejected x share of re-checked rejections that a second judge upholds",
    conventions={
        **NOISY_VERIFIER_FORWARD.conventions,
        "rates": "rho0 = 0 (shaping.0.false_positive); rho1 = 0 until 16 appeals were heard, then by counts of the run",
        "judge": "the last number equals the answer, whatever the form (rollout.judge); it re-checks a quarter",
    },
    rollout=WithAppeals(samples=8, judge=ExactMatch("number"), share=0.25),
    shaping=(AppealedCorrection("forward"),),
)

# ---------------------------------------------------------------- several objectives

MULTI_OBJECTIVE_GRPO = GRPO.but(
    name="multi-objective-grpo",
    title="Multi-objective GRPO: weighted sum, then normalise",
    source="Optimizing Safe and Aligned Language Generation: A Multi-Objective GRPO Approach, arXiv:2503.21819",
    catalogue_ids=("multi-objective-grpo",),
    axes=("reward", "credit"),
    formula="R_i = sum_k w_k s_k(x, y_i),  A_i = (R_i - mean_g R)/(std_g R + eps)",
    conventions={
        **GRPO.conventions,
        "order": "sum, then normalise, as the paper; multi-objective-grpo-normalised has the other order",
        "weights": "those of the rewards (--reward FILE.py:F=WEIGHT), or combine.weights; the paper's are unknown",
        "reward model": "any rewards; hocket.rewards.judge fits heads to scored texts and reports their accuracy",
    },
    combine=WeightedSum(),
)

MULTI_OBJECTIVE_GRPO_NORMALISED = MULTI_OBJECTIVE_GRPO.but(
    name="multi-objective-grpo-normalised",
    title="Multi-objective GRPO: normalise, then weighted sum",
    source="the other order of the sum; GDPO, arXiv:2601.05242, without its normalisation over the batch",
    formula="A_i = sum_k w_k (s_k,i - mean_g s_k)/(std_g s_k + eps)",
    conventions={**MULTI_OBJECTIVE_GRPO.conventions, "order": "normalise each score in its group, then sum"},
    combine=NormalisedSum(),
    **{"credit.scale": None},
)

QUARK = GRPO.but(
    name="quark-medical-alignment",
    title="Reference-frozen normalisation with weights by weakness, risk and redundancy",
    source="Quark Medical Alignment, arXiv:2602.11661 (abstract; the product of the factors is chosen here)",
    catalogue_ids=("quark-medical-alignment",),
    axes=("reward", "objective"),
    formula="R = sum_k w_k (r_k - mu_k,ref)/sigma_k,ref,  w_k ~ risk_k exp(-level_k) / sum_j max(0, corr_kj), sum 1",
    conventions={
        **GRPO.conventions,
        "reference statistics": "of the first batch, which the untrained policy answers; then fixed; epsilon 0, ddof 1",
        "constant under the reference": "a source without scale counts nothing until it varies",
        "weakness": "exp of minus the running mean of the normalised score, momentum 0.8, cut to +-10",
        "risk": "1 unless named in combine.risk",
        "redundancy": "positive correlations within the batch",
    },
    combine=FrozenScale(),
)

DR_GENRE = GRPO.but(
    name="dr-genre",
    title="Decoupled rewards with weights per task",
    source="Dr Genre, arXiv:2503.06781 (weighted sum as in the abstract; the usual KL-regularised RL is assumed)",
    catalogue_ids=("dr-genre",),
    axes=("reward", "objective", "data"),
    formula="R(x, y) = sum_k w_{task(x),k} r_k(x, y) - beta log(pi/ref),  A_i = R_i - mean_g R",
    conventions={
        **UNSCALED,
        "scale": "none, so that pi_ref exp(r/beta)/Z is the fixed point",
        "KL": "k1 in the reward at every decision, coefficient 0.05 (shaping.0.coefficient)",
        "weights": "combine.weights by the scenario's metadata 'task', then by reward; else those of the rewards",
    },
    combine=WeightedByTask(),
    shaping=(KLInReward(coefficient=0.05, estimator="k1"),),
    **{"credit.scale": None},
)

HYBRID_REWARD = GRPO.but(
    name="hybrid-multi-aspect-reward",
    title="Hybrid and multi-aspect reward: a rule over a model, adherence and length",
    source="Beyond Monolithic Rewards, arXiv:2510.05283 (abstract; mixture and penalty are chosen here)",
    catalogue_ids=("hybrid-multi-aspect-reward",),
    axes=("reward", "policy"),
    formula="R = c rule + (1 - c) model (model where no rule) + sum_k w_k aspect_k - 0.5 clip((L - L0)/L0, 0, 1)",
    conventions={
        **GRPO.conventions,
        "confidence": "combine.confidence = 1: the rule overrides; a number below mixes, a name reads a score",
        "names": "scores 'correct' (rule) and 'model'; all others are aspects and are added",
        "length": f"linear beyond shaping.0.longest = {HORIZON} decisions, 0.5 at twice as many",
    },
    note="shown on text; its modality comes later",
    combine=RuleOverModel(),
    shaping=(LengthBand(longest=float(HORIZON), penalty=0.5, power=1.0),),
)

# ---------------------------------------------------------------- rewards by kind of task

MIXED_R1 = GRPO.but(
    name="mixed-r1",
    title="Mixed-R1: each prompt names its reward",
    source="Mixed-R1, arXiv:2505.24164 (abstract)",
    catalogue_ids=("mixed-r1",),
    axes=("reward", "data", "policy"),
    formula="R = the reward the prompt names: match, chart (5%), box IoU, BMAS = (mean_i max_j S + mean_j max_i S)/2",
    conventions={
        **GRPO.conventions,
        "router": "metadata 'reward' of the scenario; a scenario with an answer that names none is matched",
        "answer": "inside the last <answer> tags, else the last line",
        "BMAS": "cosine of hashed character n-grams of lower-case words; Routed.grade takes a model's embeddings",
        "data engine": "not part of the loop; filter the task's file, or take a curriculum by difficulty",
    },
    note="shown on text; its modality comes later; the data engine is left to the task",
    rewards=ROUTES,
)

QWEN3_KOREAN = GRPO.but(
    name="qwen3-korean",
    title="Rule and judge must agree; thoughts in the target language",
    source="Making Qwen3 Think in Korean with Reinforcement Learning, arXiv:2508.10355 (the gate is chosen here)",
    catalogue_ids=("qwen3-korean",),
    axes=("data", "reward"),
    formula="R = [rule >= 1/2][judge >= 1/2] (w_correct + w_language share of the target language in the thoughts)",
    conventions={
        **GRPO.conventions,
        "gate": "combine.gates = correct, judge; a gate without an opinion does not bar",
        "judge": "a second verifier by last number stands in; rewards.1 takes any other, by the name 'judge'",
        "language": "share of Hangul letters in <think>, weight 0.5; rewards.2.script or .words change it",
        "first stage": "supervised tuning, the plan's first phase: recipe sft",
    },
    rewards=(ExactMatch("answer-tag"), ExactMatch("number", name="judge"), LanguageShare("HANGUL", weight=0.5)),
    combine=Gated(("correct", "judge")),
)

ACE_RL = GRPO.but(
    name="ace-rl",
    title="ACE-RL: the share of a checklist's constraints that are met",
    source="ACE-RL, arXiv:2509.04903 (abstract; its further terms are left out)",
    catalogue_ids=("ace-rl",),
    axes=("reward", "data"),
    formula="R = 1/m sum_i s_i,  s_i the verdict on constraint i of the instruction's checklist",
    conventions={
        **GRPO.conventions,
        "verdicts": "programs (hocket.rewards.checklist) where the paper asks a model",
        "decomposition": "metadata 'constraints'; hocket.rewards.checklist.decompose reads them from worded demands",
        "length": "no term of its own; a WordRange is a constraint",
    },
    rewards=(Checklist(),),
)

# ---------------------------------------------------------------- formats, then self-training

CURR_REFT = GRPO.but(
    name="curr-reft",
    title="Curriculum of formats: yes/no, choice, open",
    source="Curr-ReFT, arXiv:2503.07065 (recalled)",
    catalogue_ids=("curr-reft",),
    axes=("data", "reward", "policy"),
    formula="stage s in (yes/no, choice, open): GRPO on r_s = match, share of the right letters, word F1",
    conventions={
        **GRPO.conventions,
        "stages": "curriculum.per_stage = 320 scenarios each, the last for the rest of the run",
        "questions": "posed from open ones with a whole number as answer; others stay open",
        "plan": "[{recipe: curr-reft, steps: N}, {recipe: curr-reft-self, steps: M}]",
    },
    note="shown on text; its modality comes later",
    curriculum=FormatStages(prompts=16, per_stage=320),
    rewards=(FormatGrade(),),
)

CURR_REFT_SELF = SFT.but(
    name="curr-reft-self",
    title="Rejection-sampling self-training, the second stage of Curr-ReFT",
    source="Curr-ReFT, arXiv:2503.07065 (recalled)",
    catalogue_ids=("curr-reft",),
    axes=("data", "policy"),
    formula="L = -1/sum_i n_i sum_{i: R_i >= 1/2, judge agrees} sum_t log pi(a_it | s_it)",
    conventions={
        **SFT.conventions,
        "kept": "the current policy's samples of total score rollout.least = 0.5 or more, if rollout.judge agrees",
        "data": "the task's mixture; old skills come back only if it holds them",
    },
    note="shown on text; its modality comes later",
    rollout=Selected(samples=8, least=0.5),
)
