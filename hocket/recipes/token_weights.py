"""Relatives of GRPO that weigh samples, tokens and parts of an answer; and rollouts that make them worth comparing."""

from __future__ import annotations

from hocket.credit import (
    GAE,
    ConflictTokens,
    DownSampled,
    EntropyLifted,
    EntropyScaled,
    MaskDecision,
    PlaceWeighted,
    Pruned,
    RankRelative,
    RewardWhereTempered,
)
from hocket.objectives import Among, ClippedSurrogate, KLToReference, PolicyGradient
from hocket.recipes.actor_critic import PPO, PPO_RLHF
from hocket.recipes.group_relative import GRPO, GRPO_KL
from hocket.rewards import (
    KLInReward,
    SegmentsByText,
    SpanRewards,
    StepScores,
    ThinkingPenalties,
    UnlikelinessReward,
)
from hocket.rollout import GuidedCorrection, Refilled, Tempered
from hocket.schedules import Linear

ENTROPY = "full entropy of the policy at the batch's weights, a recorded constant"

UNLIKELINESS = GRPO.but(
    name="unlikeliness-reward",
    title="Rewarding the unlikely",
    source="He et al., Rewarding the Unlikely: Lifting GRPO Beyond Distribution Sharpening, arXiv:2506.02355",
    catalogue_ids=("unlikeliness-reward",),
    axes=("reward", "credit"),
    formula="r_i <- r_i (1 - beta rank_i / G), rank 0 the least likely sample;  then GRPO",
    conventions={
        **GRPO.conventions,
        "likelihood": "mean behaviour log-prob of a sample's decisions; equal ones share the mean of their ranks",
        "beta": "shaping.0.beta = 0.25",
        "rewards of 0 and below": "unchanged",
    },
    shaping=(UnlikelinessReward(beta=0.25),),
)

EDGE_GRPO = GRPO.but(
    name="edge-grpo",
    title="Entropy-driven GRPO with guided error correction",
    source="Zhang et al., EDGE-GRPO, arXiv:2507.21848",
    catalogue_ids=("edge-grpo",),
    axes=("credit", "rollout"),
    formula="A_i <- A_i mean_batch(H) / H_i, H_i sample i's mean entropy;  wrong samples continued after a cue",
    conventions={
        **GRPO.conventions,
        "entropy": ENTROPY,
        "factor": "mean over the batch's samples; between 0.1 and 10 (a guard that the public code has commented out)",
        "correction": "half of each group's wrong answers, rounded up, replaced by their continuation",
        "imposed tokens": "the wrong answer and the cue carry no credit and count in no denominator",
        "cue": "to look again, or to look again with the right answer, drawn evenly: rollout.cues",
    },
    rollout=GuidedCorrection(samples=8, share=0.5),
    credit=EntropyScaled(of=GRPO.credit),
)

GTPO_TRAJECTORY = GRPO.but(
    name="gtpo-trajectory",
    title="Group-relative Trajectory-based Policy Optimisation",
    source="Simoni et al., GTPO: Trajectory-Based Policy Optimization in Large Language Models, arXiv:2508.03772",
    catalogue_ids=("gtpo-trajectory",),
    axes=("credit", "objective"),
    formula="A_it = d_it (A_i - 0.1 H_i)[H_i <= 0.7] / max(1, n_i),  L = -1/N sum_i 1/T_i sum_t A_it log pi_it",
    conventions={
        **GRPO.conventions,
        "entropy": ENTROPY,
        "conflict": "same token at the same place, from the start or from the end, in runs from there",
        "multiplier": "2 where A_i > 0, 0 where A_i < 0 (before entropy enters), squared where both runs meet",
        "constant group": "A_i = 0, of which -0.1 H_i remains, as in the public code",
        "group of one": "likewise",
        "old policy": "none: the ratio is to the policy itself, so its gradient is REINFORCE's",
        "saturation": "no ratio is taken",
        "clipping side": "none",
        "KL": "none, and no reference",
    },
    credit=ConflictTokens(of=GRPO.credit),
    objective=PolicyGradient(aggregate="sequence-mean"),
)

FC_ENTROPY_GRPO = GRPO.but(
    name="fc-entropy-grpo",
    title="GRPO with an entropy bonus for reasoning before function calls",
    source="Hao et al., Exploring Superior Function Calls via Reinforcement Learning, arXiv:2508.05118",
    catalogue_ids=("fc-entropy-grpo",),
    axes=("credit", "reward"),
    formula="A_t <- A + min(c H_t, kappa |A|) at reasoning decisions",
    conventions={
        **GRPO.conventions,
        "entropy": ENTROPY,
        "form of the bonus": "our choice: bounded by a share of |A|, so it never flips a sign and leaves 0 at 0",
        "constants": "credit.gain c = 0.4, credit.share kappa = 0.5",
        "reasoning": "what stands before the first </think>, tag included; all of an answer without it",
        "reward": "the task's; for calls hocket.rewards.CallMatch, 1 for an equal syntax tree and else 0",
        "data": "the filter by syntax tree is hocket.rewards.calls.calls_of; the quality filter by a model is left out",
    },
    shaping=(SegmentsByText(separator="</think>"),),
    credit=EntropyLifted(of=GRPO.credit, gain=0.4, share=0.5, segment=0),
)

CPPO = GRPO.but(
    name="cppo",
    title="Completion Pruning Policy Optimisation",
    source="Lin et al., CPPO: Accelerating the Training of GRPO-Based Reasoning Models, arXiv:2503.22342",
    catalogue_ids=("cppo",),
    axes=("credit", "data", "system"),
    formula="keep the floor(G (1 - P)) samples of largest |A_i| of a group, of B / (1 - P) scenarios;  then GRPO",
    conventions={
        **GRPO.conventions,
        "pruning": "credit.rate P = 0.75 within each group; credit.over = batch takes the largest of the whole batch",
        "pruned samples": "weight 0, before any pass of the learner; credit.normaliser = all leaves denominators",
        "equal |A|": "the earlier sample stays",
        "advantages": "not normalised again",
        "refilled slots": "rollout.rate: as many more scenarios as keep the number of samples that are learnt from",
    },
    note="its saving is shown in decisions passed through the learner, not in seconds",
    rollout=Refilled(samples=16, rate=0.75),
    credit=Pruned(of=GRPO.credit, rate=0.75),
)

D3S = GRPO.but(
    name="d3s",
    title="Dynamic dual-level down-sampling",
    source="Wang et al., Learning More with Less: A Dynamic Dual-Level Down-Sampling Framework, arXiv:2509.22115",
    catalogue_ids=("d3s",),
    axes=("data", "credit"),
    formula="of the batch's samples the subset of largest Var(A), of its decisions those of largest |A_t| H_t",
    conventions={
        **GRPO.conventions,
        "entropy": ENTROPY,
        "shares": "from a half to all over the first three quarters of the run: credit.samples, credit.decisions",
        "rounding": "up; among equals the earlier stays",
        "left out": "weight 0: in no sum and no denominator",
    },
    credit=DownSampled(of=GRPO.credit),
)

RANK_GRPO = GRPO.but(
    name="rank-grpo",
    title="Rank-GRPO: items of a list as units",
    source="Zhu et al., Rank-GRPO: Training LLM-based Conversational Recommender Systems, arXiv:2510.20150",
    catalogue_ids=("rank-grpo",),
    axes=("credit", "objective", "reward"),
    formula="R_ik = sum_{j>=k} hit_ij/log2(j+1),  A_ik = (R_ik - mean_i)/(std_i + eps),  "
    "L = -1/N sum_i 1/n_i sum_t min(s_ik A_ik, clip(s_ik) A_ik),  s_ik the geometric mean of item k's ratios",
    conventions={
        **GRPO.conventions,
        "epsilon": "1e-4, added to the standard deviation, as in the public code",
        "items": "a line each, the line break with the item before it; shaping.0.separator",
        "reward": "hits by rank, the column hits (see hocket.rewards.ListGain); without it the return at every rank",
        "shorter lists": "0 at the ranks they lack",
        "length": "credit.length: surplus tokens -0.1, the end +0.1 if right and -0.1 if early; off unless set",
        "clipping side": "both, 0.2, whole items",
    },
    shaping=(SegmentsByText(separator="\n"),),
    credit=RankRelative(),
    **{"objective.ratio": "segment"},
)

SPECTRAL_PO = GRPO.but(
    name="spectral-po",
    title="Spectral Policy Optimisation",
    source="Chen et al., Spectral Policy Optimization: Coloring your Incorrect Reasoning in GRPO, arXiv:2505.11595",
    catalogue_ids=("spectral-po",),
    axes=("reward", "credit"),
    formula="in groups without a right answer r_i = 1/(1 + exp(-beta (RTS_i - gamma)));  then GRPO",
    conventions={
        **GRPO.conventions,
        "RTS": "length before the first wrong step over the whole length",
        "judge": "a score named rts of weight 0, else equations of integers checked in the text",
        "constants": "shaping.0.slope beta = 5 and shaping.0.threshold gamma = 0.5: the paper's are not known",
        "other groups": "unchanged to the last bit",
    },
    shaping=(StepScores(slope=5.0, threshold=0.5),),
)

AEPO = GRPO.but(
    name="aepo",
    title="Arbitrary Entropy Policy Optimisation",
    source="Wang et al., Arbitrary Entropy Policy Optimization: Entropy Is Controllable in Reinforcement Fine-tuning, "
    "arXiv:2510.08141",
    catalogue_ids=("aepo",),
    axes=("objective", "rollout"),
    formula="grad J = grad J_GRPO + alpha E_{o ~ pi^T}[R(o) grad log pi(o)],  T hot if H < target else cold",
    conventions={
        **GRPO.conventions,
        "entropy": "mean of -log pi over the decisions of the policy's own samples, per decision",
        "target": "rollout.target, nats per decision",
        "temperatures": "2 and a half of the run's; the paper's are not in the sources seen",
        "coefficient": "regularisers.0.coefficient alpha = 4, our choice: it holds entropy against GRPO's pull",
        "REINFORCE term": "on the tempered samples alone, at the run's temperature; mean over decisions, then samples",
        "reward": "the return itself, so that only right samples pull where wrong ones get 0",
        "samples": "4 tempered ones beside the group's 8; they enter no group statistic",
    },
    rollout=Tempered(samples=8, extra=4),
    credit=RewardWhereTempered(of=GRPO.credit),
    objective=Among(of=GRPO.objective, column="tempered", chosen=False),
    regularisers=(
        Among(of=PolicyGradient(aggregate="sequence-mean"), column="tempered", chosen=True, coefficient=4.0),
    ),
)

ADACOT = PPO.but(
    name="adacot",
    title="Adaptive chain-of-thought triggering",
    source="Lou et al., AdaCoT: Pareto-Optimal Adaptive Chain-of-Thought Triggering, arXiv:2505.11896",
    catalogue_ids=("adacot",),
    axes=("reward", "objective", "policy"),
    formula="R = R_base - a1 P_miss - a2 P_over - a3 P_fmt;  PPO, with weight 0 at the decision whether to think",
    conventions={
        **PPO.conventions,
        "coefficients": "shaping.0.miss, over and form = 0.2, 0.2, 0.5; a sweep of the first two moves along the front",
        "needed": "the column needed, a label in [0, 1]; without one the group's own unthinking samples tell",
        "masked decision": "the first token after <think>; correction.tag = '' for the first token of a response, "
        "correction = null for the stages that are to move the boundary",
    },
    shaping=(ThinkingPenalties(),),
    correction=MaskDecision(tag="<think>"),
)

OTHINK_MR1 = GRPO_KL.but(
    name="othink-mr1",
    title="OThink-MR1: GRPO-D, a KL weight that rises",
    source="Liu et al., OThink-MR1: Stimulating multimodal generalized reasoning capabilities via dynamic "
    "reinforcement learning, arXiv:2503.16081",
    catalogue_ids=("othink-mr1",),
    formula="L = L_GRPO + beta(s) KL_k3,  beta(s) = beta_min + (beta_max - beta_min) s/S",
    conventions={
        **GRPO_KL.conventions,
        "KL": "k3 in the loss; coefficient from 0 to 0.04 in a straight line over the run (the shape is our choice)",
        "reward": "the task's own answer and format checks",
    },
    note="shown on text; its modality comes later",
    regularisers=(KLToReference("k3", coefficient=Linear(0.0, 0.04), aggregate="sequence-mean"),),
)

TEXT2GRAD = PPO_RLHF.but(
    name="text2grad",
    title="Text2Grad: rewards of spans from written critiques",
    source="Wang et al., Text2Grad: Reinforcement Learning from Natural Language Feedback, arXiv:2505.22338",
    catalogue_ids=("text2grad",),
    axes=("reward", "credit"),
    formula="r_t = score of the critique's span that holds token t - beta log(pi_t/ref_t);  PPO with GAE",
    conventions={
        **PPO_RLHF.conventions,
        "critique": "the column critique, or the words of a score named critique, JSON [[words, score], ...]",
        "alignment": "spans in order, each after the one before; every token a span touches gets its score",
        "KL": "k1 in the reward at every decision not imposed, coefficient 0.02; the code's full KL is left out",
        "other rewards": "added as they are",
    },
    shaping=(SpanRewards(), KLInReward(coefficient=0.02, estimator="k1")),
    credit=GAE(gamma=1.0, lam=0.95, whiten=True),
)

TW_GRPO = GRPO.but(
    name="tw-grpo",
    title="Token-weighted GRPO",
    source="Dang et al., Reinforcing Video Reasoning with Focused Thinking, arXiv:2505.24718",
    catalogue_ids=("tw-grpo",),
    axes=("credit", "reward", "data"),
    formula="w_t = 1 + (w_max - 1) minmax_t mean_i sum_v (e^(m-l) - (m-l) - 1),  L = sum_it w_t x_it / sum_i n_i",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over all decisions of the batch; weights leave the denominator as it is",
        "divergence": "m is the mean of the samples' log-distributions l; finished samples count as uniform",
        "weights": "between 1 and credit.largest = 1.4 over the places of a group; 1 where no distributions are shown",
        "reward": "the task's; for questions with several right options hocket.rewards.SubsetMatch",
        "memory": "hidden states of one group and 2^23 numbers of distributions at once",
    },
    note="shown on text; its modality comes later",
    credit=PlaceWeighted(of=GRPO.credit),
    **{"objective.aggregate": "token-mean"},
)
