"""Methods that differ in what they minimise: other ratios, regressions, contrasts and leashes."""

from __future__ import annotations

from hocket.credit import ExponentialWeight, LoweredBaseline, PreferenceLevels, Verdicts
from hocket.curriculum import ByFailure
from hocket.objectives import (
    AdaptiveClip,
    AdvantageRegression,
    Discriminative,
    GeometricMean,
    HingeTrustRegion,
    KLToOld,
    LogRatioPenalty,
    MaskedPolicyGradient,
    NegativeAwareLikelihood,
)
from hocket.objectives.aggregate import HORIZON
from hocket.recipes.group_relative import GRPO
from hocket.recipes.preference import DPO
from hocket.rewards import CalibratedReward, DropSurplusNegatives, SpreadLength
from hocket.rollout import DifficultyAware

CENTRED = {"degrees of freedom": "no deviation is taken", "epsilon": "none"}

GMPO = GRPO.but(
    name="gmpo",
    title="Geometric-Mean Policy Optimisation",
    source="Zhao et al., arXiv:2507.20673",
    catalogue_ids=("gmpo",),
    axes=("objective",),
    formula="L = -1/N sum_i A_i exp(1/n_i sum_t d'_it),  d' = min(d, 0.4) where A > 0, max(d, -0.4) where A < 0",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over a trajectory's log-ratios, then over trajectories",
        "clipping side": "each token's log-ratio, pessimistically: above where A > 0, below where A < 0; 0.4",
        "advantages that differ within a trajectory": "each token is clipped by its own",
        "saturation": "a trajectory's mean log-ratio beyond +-50 nats takes the value and the gradient of the bound",
        "KL": "none, as in the paper",
    },
    objective=GeometricMean(low=0.4, high=0.4),
)

GVPO = GRPO.but(
    name="gvpo",
    title="Group Variance Policy Optimisation",
    source="Zhang et al., arXiv:2504.19599",
    catalogue_ids=("gvpo",),
    axes=("objective", "credit"),
    formula="L = mean_groups 1/(G-1) sum_i 1/2 (R_i - mean R - beta (d_i - mean d))^2,  d = log pi(y)/pi_ref(y)",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "aggregation": "log-ratios summed over a trajectory, 1/(G-1) within a group, mean over groups",
        "clipping side": "nothing is clipped",
        "anchor": "the policy before training, so that the optimum is one and the same in every step; the released "
        "code anchors at the policy that sampled (objective.against = old)",
        "KL": "beta = objective.temperature = 0.1, as in the released script",
        "constant group": "advantage 0; its log-ratios are still pulled together",
    },
    objective=AdvantageRegression(temperature=0.1, centred=True, against="reference", coefficient=0.5, unbiased=True),
    **{"credit.scale": None},
)

NFT = GRPO.but(
    name="nft",
    title="Negative-aware fine-tuning",
    source="Chen et al., Bridging Supervised Learning and Reinforcement Learning, arXiv:2505.18116",
    catalogue_ids=("nft",),
    axes=("objective", "credit"),
    formula="L = 1/(N L) sum_i w_q sum_t x_it,  x = -log r (right), -log max((1 - q r)/(1 - q), 1) (wrong),  w = 1 - q",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "right": "reward above the group's mean: for rewards in {0, 1} reward 1, in a mixed group; others are silent",
        "success rate": "q of the group, cut to [0.02, 0.98]",
        "prompt weight": "1 - q, as in the released script; objective.prompts = deviation has sqrt((1 - q)/q)",
        "floor": "1, as in the released script; values below have the gradient of the floor (straight-through)",
        "aggregation": f"sum over decisions / (N L), L = objective.horizon = {HORIZON}",
        "clipping side": "the floor alone",
    },
    credit=Verdicts(),
    objective=NegativeAwareLikelihood(),
)

DISCO = GRPO.but(
    name="disco",
    title="Discriminative Constrained Optimisation",
    source="Li et al., arXiv:2505.12366",
    catalogue_ids=("disco",),
    axes=("objective",),
    formula="L = mean_q [tau log mean_wrong exp(s/tau) - mean_right s] + beta/2 max(0, KL(old || pi) - delta)^2,  "
    "s = mean_t log pi",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "right": "reward above the group's mean: for rewards in {0, 1} reward 1, in a mixed group; others are silent",
        "aggregation": "scores are means over decisions; mean over all scenarios, those of one verdict adding 0",
        "clipping side": "nothing is clipped",
        "temperature of the soft-max": "10, as in the scripts for log-prob scores; null is DisCO-b's plain mean",
        "trust region": "mean of r - 1 - log r over the batch's decisions, radius 1e-4, coefficient 1e3 (the scripts')",
        "updates per batch": "2: in the first the policies are equal and the trust region is silent",
    },
    credit=Verdicts(),
    objective=Discriminative(score="logp", temperature=10.0),
    regularisers=(HingeTrustRegion(radius=1e-4, coefficient=1e3),),
    **{"update.epochs": 2},
)

TRPA = DPO.but(
    name="trpa",
    title="Trust Region Preference Approximation",
    source="Su et al., arXiv:2504.04524",
    family="group-relative",
    catalogue_ids=("trpa",),
    axes=("objective", "reward"),
    formula="L = -mean_pairs log sigmoid(c beta (d_w - d_l)) + 0.001 mean_t k3(pi || old),  d = mean_t log pi/ref,  "
    "c = 2.5 where w is of the top level",
    conventions={
        **DPO.conventions,
        "aggregation": "log-ratios averaged over a trajectory's decisions; mean over pairs and lone trajectories",
        "pairs": "all across levels of a scenario; a level is a return, or the scores that credit.order names",
        "top level": "the highest of the batch; pairs it wins count 2.5-fold in the margin, as in the code",
        "constant group": "and a group of one: -log sigmoid(+-d), up on the top level, down elsewhere; "
        "nothing, the KL included, if the batch has one level",
        "old policy": "the sampler's own log-probs",
        "KL": "k3 to the policy that sampled, coefficient 0.001; regularisers.0.root = a is sqrt(mean k3 + a)",
    },
    credit=PreferenceLevels(),
    objective=DPO.objective,
    regularisers=(KLToOld(coefficient=0.001),),
    **{"objective.length_normalised": True, "objective.top": 2.5, "objective.lone": True},
)

KIMI_K1_5 = GRPO.but(
    name="kimi-k1-5",
    title="Kimi k1.5: mirror descent by regression, length reward, sampling by failure",
    source="Kimi Team, arXiv:2501.12599",
    catalogue_ids=("kimi-k1-5",),
    axes=("objective", "reward", "rollout", "data", "system"),
    formula="L = 1/N sum_i 1/(2 tau) (R_i - mean_g R - tau log pi(y_i)/pi_old(y_i))^2,  "
    "R += 1/2 (1/2 - (l - min l)/(max l - min l)), at most 0 if wrong",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "aggregation": "log-ratios summed over a trajectory, mean over trajectories",
        "clipping side": "nothing is clipped",
        "KL": "tau = 0.1 is our choice; the report gives none",
        "log Z": "replaced by the group's mean reward",
        "length reward": "weight 0.5, after the first quarter of the run (the report gives neither)",
        "prompts": "a pool of 256, asked in proportion to 1 - success",
        "updates per batch": "2: in the first the policies are equal and tau plays no part",
    },
    note="Difficulty labels for an easy-to-hard order are not read; answers cut short are not resumed in a later step "
    "(rollouts carry no memory); of long2short there are its pairs (hocket.credit.ShortestAgainstLonger, for DPO) and "
    "length-rewarded training, not model merging.",
    curriculum=ByFailure(),
    shaping=(SpreadLength(),),
    objective=AdvantageRegression(temperature=0.1),
    **{"credit.scale": None, "update.epochs": 2},
)

DEEPVIDEO_R1 = GRPO.but(
    name="deepvideo-r1",
    title="Regressive GRPO with difficulty-aware augmentation",
    source="Park et al., DeepVideo-R1, arXiv:2506.07464",
    catalogue_ids=("deepvideo-r1",),
    axes=("objective", "data", "policy"),
    formula="L = 1/N sum_i (A_i - (d_i - mean_g d)/s)^2,  d = log pi(y)/pi_old(y),  A = (R - mean R)/(std R + eps)",
    conventions={
        **GRPO.conventions,
        "aggregation": "log-ratios summed over a trajectory, mean over trajectories",
        "clipping side": "nothing is clipped",
        "scale of log-ratios": "s = 1, that is objective.temperature = 1/s; their own deviation is 0 at the first step",
        "too hard, too easy": "0.1 below or above the mean past reward of the scenarios asked",
        "hint": "the first half or more of metadata solution, as forced tokens; without one, nothing is told",
        "perturbation": "1.5 times the temperature, learnt at that temperature",
        "updates per batch": "2",
    },
    note="Shown on text: the paper perturbs video frames, here sampling is hotter; frames come with their modality.",
    rollout=DifficultyAware(samples=8),
    objective=AdvantageRegression(temperature=1.0, centred=True, coefficient=1.0),
    **{"update.epochs": 2},
)

BAPO = GRPO.but(
    name="bapo",
    title="Balanced Policy Optimisation with adaptive clipping",
    source="Xi et al., arXiv:2510.18927",
    catalogue_ids=("bapo",),
    axes=("objective",),
    formula="L = -1/sum_i n_i sum_it min(r A, clip(r, c_low, c_high) A), at least 3 A for A < 0;  "
    "c_low from 0.6 to 0.9, then c_high from 1.2 to 3, until the positive share is 1/2",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over all decisions of the batch",
        "clipping side": "both, found anew before each update; dual clip at 3",
        "positive share": "of sum |r A| over decisions that carry a gradient; the released code counts clipped ones",
        "search": "the lower bound first, steps of 0.05, then the upper, steps of 0.1",
        "updates per batch": "2",
    },
    note="On stale samples it learnt more than with a fixed clip and did not collapse, but that entropy stays higher, "
    "as the paper reports, was not seen at equal steps.",
    objective=AdaptiveClip(),
    **{"update.epochs": 2},
)

LENS = GRPO.but(
    name="lens",
    title="Likelihood estimation with negative samples",
    source="Feng et al., Don't Waste Mistakes, arXiv:2510.08696",
    catalogue_ids=("lens",),
    axes=("reward", "objective"),
    formula="R~ = R - (1 - R) g/(1 + g), g = c/(D - c), c = exp(mean_t log pi_old);  then GRPO",
    conventions={
        **GRPO.conventions,
        "confidence": "exp of the mean log-prob over decisions; shaping.0.confidence = sequence is the formula's own",
        "difficulty": "per group mean c over (k + 1/2)/(G + 1), k of G right, within [max c, 1]",
        "bound": "the penalty g is bounded smoothly by shaping.0.limit = 1; null is the formula's own",
        "constant group": "of right answers: advantage 0; of wrong ones: the surer, the lower",
    },
    shaping=(CalibratedReward(),),
)

# ---------------------------------------------------------------- group-relative REINFORCE is off-policy

REC_REINFORCE = GRPO.but(
    name="rec-reinforce",
    title="Group-relative REINFORCE, whoever sampled",
    source="Yao et al., Group-Relative REINFORCE Is Secretly an Off-Policy Algorithm, arXiv:2509.24203",
    catalogue_ids=("group-relative-reinforce",),
    axes=("objective", "analysis", "rollout"),
    formula="L = -1/sum_i n_i sum_it (R_i - mean_g R) log pi_it",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "aggregation": "mean over all decisions of the batch",
        "clipping side": "nothing is clipped",
        "old policy": "plays no part",
    },
    objective=MaskedPolicyGradient(sides="none"),
    **{"credit.scale": None},
)

REC_ONE_SIDE = REC_REINFORCE.but(
    name="rec-one-side",
    title="REINFORCE with the clip's mask and without its ratio",
    catalogue_ids=("group-relative-reinforce",),
    formula="L = -1/sum_i n_i sum_it m_it A_i log pi_it,  m = [r <= 1.2] where A > 0, [r >= 0.8] where A < 0",
    conventions={
        **REC_REINFORCE.conventions,
        "clipping side": "PPO's, 0.2 each, as a mask",
        "old policy": GRPO.conventions["old policy"],
    },
    **{"objective.sides": "one"},
)

REC_ONE_SIDE_IS = REC_ONE_SIDE.but(
    name="rec-one-side-is",
    title="REINFORCE with the clip's mask and its ratio: the gradient of PPO's surrogate",
    catalogue_ids=("group-relative-reinforce",),
    formula="L = -1/sum_i n_i sum_it sg[m_it r_it] A_i log pi_it",
    **{"objective.weighted": True},
)

REC_OPMD = REC_REINFORCE.but(
    name="rec-opmd",
    title="REINFORCE with a quadratic leash: online policy mirror descent",
    catalogue_ids=("group-relative-reinforce",),
    formula="L = -1/N sum_i [A_i log pi(y_i) - tau/2 (log pi(y_i)/pi_old(y_i))^2]",
    conventions={
        **REC_REINFORCE.conventions,
        "aggregation": "sums over a trajectory, mean over trajectories",
        "old policy": GRPO.conventions["old policy"],
        "KL": "tau/2 = regularisers.0.coefficient = 0.05, our choice",
    },
    regularisers=(LogRatioPenalty(coefficient=0.05, level="sequence"),),
    **{"objective.aggregate": "sequence-sum"},
)

REC_ASYMRE = REC_REINFORCE.but(
    name="rec-asymre",
    title="REINFORCE with a lowered baseline",
    source="Arnal et al., AsymRE, arXiv:2506.20520; as in arXiv:2509.24203",
    catalogue_ids=("group-relative-reinforce",),
    formula="L = -1/sum_i n_i sum_it (R_i - mean_g R + 0.1) log pi_it",
    conventions={**REC_REINFORCE.conventions, "constant group": "advantage 0.1: its samples are imitated"},
    correction=LoweredBaseline(shift=0.1),
)

REC_DROP = REC_REINFORCE.but(
    name="rec-drop",
    title="REINFORCE on as many bad samples as good ones",
    catalogue_ids=("group-relative-reinforce",),
    formula=REC_REINFORCE.formula + ", surplus negatives dropped before the mean is taken",
    conventions={
        **REC_REINFORCE.conventions,
        "dropped": "negatives beyond the number of positives, the last in assignment order (at random in the code)",
    },
    shaping=(DropSurplusNegatives(),),
)

REC_WEIGHT = REC_REINFORCE.but(
    name="rec-weight",
    title="REINFORCE with exponential weights",
    catalogue_ids=("group-relative-reinforce",),
    formula="L = -1/sum_i n_i sum_it exp(A_i/temp) A_i log pi_it,  A = R - mean_g R",
    conventions={**REC_REINFORCE.conventions, "sample weight": "exp(A / correction.temperature = 1), not normalised"},
    correction=ExponentialWeight(temperature=1.0),
)
