"""Relatives of GRPO that care how long an answer is, what it calls, and where on its way it could have stopped."""

from __future__ import annotations

from hocket.credit import (
    DeviationUnlessAllRight,
    GroupRelative,
    LogisticAccuracy,
    PlanAndSolution,
    ProgressBonus,
    TagBonus,
)
from hocket.curriculum import ShrinkingBudget
from hocket.objectives.aggregate import HORIZON
from hocket.recipes.actor_critic import PPO
from hocket.recipes.group_relative import DR_GRPO, GRPO
from hocket.recipes.supervised import SFT
from hocket.rewards import (
    BudgetLength,
    ContrastBonus,
    CosineLength,
    DecayingExits,
    LengthOnceRight,
    LongerIsBetter,
    RelativeLength,
    SearchTable,
    StandardisedLength,
    TagFormat,
    ToolEfficiency,
)
from hocket.rollout import (
    CompressedThoughts,
    ContrastGroups,
    DroppedThoughts,
    DynamicSampling,
    ForcedAnswers,
    Independent,
    PlanTree,
    SerialGroup,
)

CENTRED = {"degrees of freedom": "no deviation is taken", "epsilon": "none"}
RIGHT = {"right answers": "those whose return before shaping is at least 0.5 (a stage's `least`)"}
LENGTH = {"length": "decisions of all turns, imposed ones included"}

OPEN_RS = GRPO.but(
    name="open-rs",
    title="Small-budget reasoning with a cosine length reward",
    source="Dang and Ngo, Reinforcement Learning for Reasoning in Small LLMs, arXiv:2503.16219",
    catalogue_ids=("open-rs",),
    axes=("analysis", "data", "reward"),
    formula="R_i = 2 (b + (a - b)(1 + cos(pi min(l_i, L)/L))/2) + tags_i,  (a, b) = (1, 0.5) if right else (-1, -0.5)",
    conventions={
        **GRPO.conventions,
        **RIGHT,
        "length": f"decisions (the script counts characters), capped at shaping.0.limit = {HORIZON}",
        "reversed defaults": "the script's values for wrong answers are refused",
        "tags": "weight 1 for <think>..</think> and one <answer>..</answer>",
    },
    shaping=(CosineLength(limit=HORIZON, weight=2.0), TagFormat(weight=1.0)),
)

GRPO_LEAD = GRPO.but(
    name="grpo-lead",
    title="GRPO with length-dependent accuracy, explicit penalty and difficulty weights",
    source="Zhang and Zuo, arXiv:2504.09696",
    catalogue_ids=("grpo-lead",),
    axes=("reward", "credit"),
    formula="R_i = exp(-a z_i) if right else -1;  A_i = (R_i - mean R)/(std R + eps) w(rho if A_i > 0 else 1 - rho),  "
    "w(x) = 0.4 + 1.1/(1 + exp(10 (x - 0.75)))",
    conventions={
        **GRPO.conventions,
        **RIGHT,
        **LENGTH,
        "z-score": "over the right answers of the group, deviation by their number, epsilon 1e-6; alone it is 0",
        "strength": "a = shaping.0.alpha = 0.05",
        "rho": "share of the group with a positive return after shaping, as the public code counts",
    },
    shaping=(StandardisedLength(alpha=0.05, wrong=-1.0),),
    **{"credit.weigh": (LogisticAccuracy(success=0.0),)},
)

CONCISER_1 = GRPO.but(
    name="conciser-1",
    title="ConciseR, first stage: GRPO++",
    source="Song and Zheng, Walk Before You Run, arXiv:2505.21178",
    formula="GRPO with clip(r, 1 - 0.2, 1 + 0.28), groups whose rewards are all equal asked again",
    conventions={
        **GRPO.conventions,
        "clipping side": "0.2 below, 0.28 above",
        "constant group": "discarded and asked again, at most 3 rounds",
        "entropy": "no bonus (the paper's first stage may add one)",
    },
    rollout=DynamicSampling(samples=8, max_rounds=3),
    **{"objective.high": 0.28},
)

CONCISER = CONCISER_1.but(
    name="conciser",
    title="ConciseR, second stage: length only once all are right",
    source=CONCISER_1.source,
    catalogue_ids=("conciser",),
    axes=("reward", "data", "objective"),
    formula="R_i = 1 + (1 - l_i/L) if all of the group are right, else the verdict;  "
    "A_i = (R_i - mean R)/(std R + eps), undivided where all are right",
    conventions={
        **CONCISER_1.conventions,
        **RIGHT,
        **LENGTH,
        "constant group": "kept: groups of right answers are what this stage learns from; constant ones get 0",
        "length term": f"what is left of L = shaping.0.limit = {HORIZON}, our example; the paper's code is not public",
        "deviation": "not taken in groups of right answers, whose lengths it would blow up (credit.weigh)",
        "stages": "a plan: conciser-1 until accuracy is good, then conciser for fewer steps",
    },
    rollout=Independent(samples=8),
    shaping=(LengthOnceRight(limit=HORIZON),),
    **{"credit.scale": None, "credit.weigh": (DeviationUnlessAllRight(),)},
)

OTC = GRPO.but(
    name="otc",
    title="Optimal tool calls",
    source="Wang et al., OTC: Optimal Tool Calls via Reinforcement Learning, arXiv:2504.14870",
    catalogue_ids=("otc",),
    axes=("reward", "credit"),
    formula="R_i = alpha r_tool(m_i, n) verdict_i,  r_tool = sin(pi m/(m + n)) for n > 0, cos(pi m/(2m + c)) for n = 0",
    conventions={
        **GRPO.conventions,
        **RIGHT,
        "n": "the fewest calls of any right answer to the scenario, this group included, remembered over the run",
        "calls": "column tool_calls, else <tool_call> counted in the text",
        "smoothing": "c = shaping.0.smooth = 4",
        "alpha": "1; in a standardised group it has no effect",
    },
    shaping=(ToolEfficiency(),),
)

OTC_PPO = PPO.but(
    name="otc-ppo",
    title="Optimal tool calls with a critic",
    source=OTC.source,
    catalogue_ids=("otc",),
    formula="R_i = alpha cos(pi m_i/(2 m_i + c)) verdict_i, in PPO",
    conventions={
        **PPO.conventions,
        **RIGHT,
        "calls": OTC.conventions["calls"],
        "smoothing": "c = shaping.0.smooth = 4",
    },
    shaping=(ToolEfficiency(form="alone"),),
)

TRAIN_LONG_THINK_SHORT = GRPO.but(
    name="train-long-think-short",
    title="Curriculum over token budgets",
    source="Hammoud et al., Train Long, Think Short, arXiv:2508.08940, section 3",
    catalogue_ids=("train-long-think-short",),
    axes=("reward", "data"),
    formula="R_i = verdict_i + tri(l_i / B_k) + tags_i/2,  tri(x) = x up to 1, 2 - x up to 2, else 0,  "
    "B_k = max(1, B_0 gamma^floor(k/T))",
    conventions={
        **GRPO.conventions,
        **LENGTH,
        "budget": "curriculum.start, decay and interval; rounded; asked for in the prompt's last line",
        "weights": "verdict 1 and length 1 (shaping.0), tags 0.5 together (shaping.1); the paper's are not known here",
        "length reward": "right and wrong answers alike, as published",
    },
    curriculum=ShrinkingBudget(start=HORIZON, decay=0.8, interval=20),
    shaping=(BudgetLength(), TagFormat(weight=0.5, apart=True)),
)

LC_R1 = DR_GRPO.but(
    name="lc-r1",
    title="Length compression for reasoning",
    source="Cheng et al., Optimizing Length Compression in Large Reasoning Models, arXiv:2506.14755",
    catalogue_ids=("lc-r1",),
    axes=("reward", "credit", "rollout"),
    formula="A_it = R_i - mean R + [t closes a right thought] (c2 (1 - kept/original) or -c2),  "
    "R_i = verdict_i + tags_i + c (1 - l_i/longest right)",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        **RIGHT,
        **LENGTH,
        "compression": "right answers only, as in the public trainer; all that remains is learnt from",
        "extractor": "the answer's first mention as a word of its own, a script in place of a trained one",
        "length term": "for all answers of a group with a right one, after compression; c = shaping.0.weight = 1",
        "bonus": "c2 = credit.bonus = credit.penalty = 1, at the closing tag, after centring",
        "right answers": "compression asks the scores' sum; the length term the return before it",
    },
    rollout=CompressedThoughts(samples=8),
    shaping=(RelativeLength(), TagFormat(weight=1.0)),
    credit=TagBonus(),
    **{"objective.aggregate": "sequence-mean"},
)

S_GRPO = DR_GRPO.but(
    name="s-grpo",
    title="Serial-group decaying-reward policy optimisation",
    source="Dai et al., S-GRPO: Early Exit via Reinforcement Learning in Reasoning Models, arXiv:2505.07686",
    catalogue_ids=("s-grpo",),
    axes=("rollout", "reward", "credit"),
    formula="R_i = 2^-(n_i - 1) if right else 0, n_i right answers up to and including i;  A_i = R_i - mean R",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        **RIGHT,
        "serial group": "one chain per scenario, 8 cuts drawn from the places of its thought, and the chain",
        "prefixes": "learnt from in every member that keeps them; the imposed phrase is not",
        "aggregation": "mean over a member's decisions, then over members",
    },
    rollout=SerialGroup(samples=9),
    shaping=(DecayingExits(),),
    **{"objective.aggregate": "sequence-mean"},
)

TON_SFT = SFT.but(
    name="ton-sft",
    title="Think or not, first stage: thought dropout",
    source="Wang et al., Think or Not?, arXiv:2505.16854",
    formula="SFT on demonstrations whose thought is emptied with probability 1/2",
    rollout=DroppedThoughts(share=0.5),
)

TON = GRPO.but(
    name="ton",
    title="Think or not, second stage: GRPO that accepts empty thoughts",
    source=TON_SFT.source,
    catalogue_ids=("ton",),
    axes=("policy", "data", "reward"),
    formula=GRPO.formula + " with R_i = verdict_i + tags_i, an empty thought being well-formed",
    conventions={
        **GRPO.conventions,
        "tags": "weight 0.5; <think></think> passes, no tags at all do not",
        "stages": "a plan: ton-sft on demonstrations, then ton",
    },
    note="shown on text; the paper's vision-language model comes later",
    shaping=(TagFormat(weight=0.5),),
)

SEM = GRPO.but(
    name="sem",
    title="Search only when needed",
    source="Sha, Cui and Wang, SEM, arXiv:2505.07903",
    catalogue_ids=("sem",),
    axes=("reward", "data", "policy"),
    formula=GRPO.formula + " with R_i from a table of guess, search and final answer",
    conventions={
        **GRPO.conventions,
        "table": "1 right at once, 0.8 found by a search that was needed, 0.3 right after a needless one, 0.1 wrong "
        "after a needed one, 0 wrong at once, -0.2 spoiled by a needless one; the paper gives the order in words",
        "guess": "the answer given before the first search",
        "malformed": "0: no final answer, or a search before any guess",
    },
    rewards=(SearchTable(),),
)

MRT = GRPO.but(
    name="mrt",
    title="Meta reinforcement fine-tuning",
    source="Qu et al., Optimizing Test-Time Compute via Meta Reinforcement Fine-Tuning, arXiv:2503.07572",
    catalogue_ids=("mrt",),
    axes=("reward", "credit", "analysis"),
    formula="A_it = (R_i - mean R)/(std R + eps) + alpha b_j(t),  b_j = J(z_1:j) - J(z_1:j-1), J of forced answers",
    conventions={
        **GRPO.conventions,
        "blocks": "at most 4 of equal length inside the thought; what follows it belongs to the last",
        "meta-prover": "the policy itself, 2 answers of at most 16 tokens per prefix after </think><answer>",
        "J_k": "the score of the answer the trajectory gave itself",
        "own block": "credit.form = own; to-go credits all progress from a block on, R - J_(j-1)",
        "alpha": "credit.alpha = 1, beside the standardised outcome",
    },
    rollout=ForcedAnswers(samples=8, blocks=4, tries=2),
    credit=ProgressBonus(base=GroupRelative()),
)

PTA_GRPO = DR_GRPO.but(
    name="pta-grpo",
    title="Plan then action",
    source="Dou et al., Plan Then Action, arXiv:2510.01833",
    catalogue_ids=("pta-grpo",),
    axes=("reward", "rollout", "credit"),
    formula="plan tokens: V_p - mean_p V_p, V_p = mean_j R_pj;  solution tokens: R_pj - mean R",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "estimator": "4 plans and 4 solutions from each, ours: the paper's is not known",
        "plan": "the response up to </plan>, at most 64 tokens; one turn that its solutions share",
        "aggregation": "mean over a trajectory's decisions, then over trajectories; a shared plan counts in each",
        "warm-up": "SFT on plan and solution first (recipe sft)",
    },
    rollout=PlanTree(plans=4, solutions=4),
    credit=PlanAndSolution(),
    **{"objective.aggregate": "sequence-mean"},
)

GCPO_GEOMETRYZERO = GRPO.but(
    name="gcpo-geometryzero",
    title="Group contrastive policy optimisation",
    source="Wang et al., GeometryZero, arXiv:2506.07160",
    catalogue_ids=("gcpo-geometryzero",),
    axes=("reward", "rollout"),
    formula="R_i = verdict_i + w sign(a_w - a_o) constructs_i + tags_i + c min(l_i/L, 1), sign 0 within eps",
    conventions={
        **GRPO.conventions,
        **LENGTH,
        "told groups": "4 rollouts each, they give a_w and a_o and are not learnt from; 8 untold ones are",
        "band": "eps = shaping.0.band = 0.1",
        "construction": "column constructs, else <tool_call> in the text (shaping.0.marker)",
        "weights": "bonus 0.5, tags 0.5, length 0.1; the paper's are not known here",
    },
    rollout=ContrastGroups(samples=8, probes=4),
    shaping=(ContrastBonus(), TagFormat(weight=0.5), LongerIsBetter(limit=HORIZON)),
)
