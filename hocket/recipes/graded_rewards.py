"""Relatives of GRPO that change what is rewarded: by agreement, diversity, nearness, steps taken and experts shown."""

from __future__ import annotations

from hocket.curriculum.families import Families
from hocket.curriculum.variable import Chosen
from hocket.recipes.group_relative import GRPO, GSPO
from hocket.rewards.agreement_votes import VoteReward
from hocket.rewards.conformance import Conformance
from hocket.rewards.curves import AsymmetricCurve
from hocket.rewards.diversity import RedundancyDiscount, RoleDiversity
from hocket.rewards.graded import Closeness, EntityMatch, IntervalIoU
from hocket.rewards.key_steps import KeySteps, OrderedStages
from hocket.rewards.paraphrases import GroupSimilarity
from hocket.rewards.verifiers import ExactMatch
from hocket.rollout.expert import WithExpert

DRA_GRPO = GRPO.but(
    name="dra-grpo",
    title="Diversity-aware Reward Adjustment",
    source="DRA-GRPO, arXiv:2505.09655",
    catalogue_ids=("dra-grpo",),
    axes=("reward", "credit"),
    formula="r'_i = R_i / (sum_{j in g} max(0, cos(e_i, e_j)) + 1e-6),  A_i = (r'_i - mean_g r')/(std_g r' + eps)",
    conventions={
        **GRPO.conventions,
        "embedding": "recorded ones where every trajectory has one, else hashed character bigrams and trigrams of text",
        "similarity epsilon": "shaping.0.epsilon = 1e-6, added to the sum",
        "negative cosines": "count 0 (shaping.0.nonnegative), so that the sum is at least 1; the release keeps them",
        "group of the sum": "the samples of the scenario, the sample itself included",
        "return": "all that was earned, divided as a whole",
    },
    shaping=(RedundancyDiscount(),),
)

TTRV = GRPO.but(
    name="ttrv",
    title="Test-Time Reinforcement Learning by answer frequency",
    source="TTRV, arXiv:2510.06783",
    catalogue_ids=("ttrv",),
    axes=("reward", "data"),
    formula="r_i = count_g(y_i)/G - 0.75 H(p)/log K,  A_i = (r_i - mean_g r)/(std_g r + eps)",
    conventions={
        **GRPO.conventions,
        "labels": "none are used: the verifiers' scores are replaced",
        "entropy": "0.75 times the normalised one, from a public implementation; a group baseline removes it",
        "no answer": "reward 0 before the entropy term, and one outcome more in the entropy",
        "no words": "where nothing was written at all (a controller), rewards stay",
        "majority": "shaping.0.vote=majority gives 0/1 to the most frequent answers instead, all of them when tied",
    },
    note="shown on text answers; images come with their modality",
    shaping=(VoteReward(),),
)

PS_GRPO = GRPO.but(
    name="ps-grpo",
    title="Paraphrased Set GRPO: group similarity rewards",
    source="Improving Consistency in Retrieval-Augmented Systems with Group Similarity Rewards, arXiv:2510.04392",
    catalogue_ids=("ps-grpo",),
    axes=("reward", "data"),
    formula="r_ij = mean_{u != i} mean_m sim(o_ij, o_um),  A_ij = (r_ij - mean_j r_ij)/(std_j r_ij + eps)",
    conventions={
        **GRPO.conventions,
        "paraphrases": "scenarios with one origin; families of curriculum.family = 4 consecutive scenarios in one step",
        "no paraphrases": "compared with the other samples of the same scenario",
        "no words": "where nothing was written at all (a controller), rewards stay",
        "similarity": "sentence BLEU with effective order (sacrebleu); rouge-l, rouge-1, exact by shaping.0.similarity",
        "sub-sampling": "off; shaping.0.others and shaping.0.rollouts draw without replacement, for every sample anew",
        "accuracy": "not rewarded; shaping.0.accuracy adds the verifiers' reward",
        "advantages": "within the samples of one paraphrase",
    },
    note="shown end to end with a BM25 retriever; the generator alone, under fixed passages, is not measured apart",
    curriculum=Families(),
    shaping=(GroupSimilarity(),),
)

E_GRPO = GRPO.but(
    name="e-grpo",
    title="Entity-aware GRPO",
    source="Repurposing Synthetic Data for Fine-grained Search Agent Supervision, arXiv:2510.24694",
    catalogue_ids=("e-grpo",),
    axes=("reward", "credit", "data"),
    formula="r_i = R_i if right, alpha g_i/max_j g_j if wrong with an answer, 0 without; then A_i as in GRPO",
    conventions={
        **GRPO.conventions,
        "alpha": "shaping.0.alpha = 0.3, chosen here; below the reward of a right answer",
        "right": "a return of at least shaping.0.right = 1",
        "form": "right if there is a final answer (label)",
        "entities": "a list in the scenario's metadata; matched as whole words, case levelled, in the last turn's "
        "text or another column (shaping.0.column) that a workflow fills",
        "maximum": "over the group, right answers included; 0 where no entity is matched or none is known",
    },
    shaping=(EntityMatch(),),
)

R1_VL = GRPO.but(
    name="r1-vl",
    title="Step-wise GRPO: key steps and valid order",
    source="R1-VL, arXiv:2503.12937",
    catalogue_ids=("r1-vl",),
    axes=("reward", "policy"),
    formula="r_i = [answered](R_i + 0.1 k_i) + [stages in order],  k_i the share of key steps in the reasoning",
    conventions={
        **GRPO.conventions,
        "alpha": "shaping.0.alpha = 0.1, as released",
        "key steps": "in the scenario's metadata, each with synonyms; whole words before the last <answer>, any order",
        "no key steps": "the reward stays, answered or not",
        "stages": "<think>, </think>, <answer>, </answer> instead of the release's headings; shaping.1.stages",
        "stuffing": "not punished, as in the paper; shaping.0.most_density withholds k from texts of key words alone",
        "KL": "coefficient 0",
    },
    note="shown on text; images come with their modality",
    shaping=(KeySteps(), OrderedStages()),
)

CROWDVLM_R1 = GRPO.but(
    name="crowdvlm-r1",
    title="Fuzzy Group Relative Policy Reward for counting",
    source="CrowdVLM-R1, arXiv:2504.03724",
    catalogue_ids=("crowdvlm-r1",),
    axes=("reward", "policy"),
    formula="r_i = (1.5 - gap_i)[gap_i < 0.5] + [format],  gap_i = |y - y_i|/y,  then A_i as in GRPO",
    conventions={
        **GRPO.conventions,
        "cut": "rewards.0.cut = 0.5, rewards.0.top = 1.5, as released: the reward falls from above 1 to 0 at the cut",
        "no number": "closeness 0",
        "truth of 0": "gap 0 for the exact guess, else infinite",
        "format": "<think>, </think>, <answer> and </answer> in this order, weight 1 (shaping.0)",
        "KL": "coefficient 0",
    },
    note="shown on counts asked in text; images come with their modality",
    rewards=(Closeness(),),
    shaping=(OrderedStages(),),
)

TEMPORAL_R1 = GRPO.but(
    name="temporal-r1",
    title="Semantic and temporal rewards, data chosen by variance",
    source="Reinforcement Learning Tuning for VideoLLMs, arXiv:2506.01908",
    catalogue_ids=("temporal-r1",),
    axes=("reward", "data", "policy"),
    formula="r_i = [answer right] + |pred and gt|/|pred or gt|; only scenarios with Var_start(r) above a threshold",
    conventions={
        **GRPO.conventions,
        "data": "curriculum.numbers, as hocket.curriculum.variable chooses them from the start model's rewards; "
        "none: all scenarios",
        "variance": "divided by n - 1",
        "interval": "the first two numbers of the answer; without them 0; metadata name the true one",
        "cut-offs of the IoU": "none",
    },
    note="shown on intervals in text; video comes with its modality",
    curriculum=Chosen(),
    rewards=(ExactMatch(), IntervalIoU()),
)

TEMPSAMP_R1 = GRPO.but(
    name="tempsamp-r1",
    title="An expert among the samples, rewards reshaped asymmetrically",
    source="TempSamp-R1, arXiv:2509.18056",
    catalogue_ids=("tempsamp-r1",),
    axes=("rollout", "credit", "policy"),
    formula="group = G - 1 samples and 1 expert; r' = t + a log(1 + r - t) above t, "
    "t - (e^{b(t - r)} - 1)/(e^b - 1) below; then A_i as in GRPO",
    conventions={
        **GRPO.conventions,
        "curve": "t = 0.8, a = 0.01, b = 1 (shaping.0), chosen here: the paper's constants could not be confirmed",
        "expert": "metadata['demonstration'] or the answer as text; rollout.experts = 1 of rollout.samples = 8",
        "expert's ratio": "its behaviour log-probs are the learner's own before the update: ratio 1",
        "no expert known": "all samples are the policy's",
        "reward": "the task's own; IoU for intervals by rewards of temporal-r1",
    },
    note="shown on intervals in text; the training with and without a chain of thought is left to the task's prompts",
    rollout=WithExpert(samples=8),
    shaping=(AsymmetricCurve(),),
)

MULTIROLE_R1 = GRPO.but(
    name="multirole-r1",
    title="Diversity-enhanced reasoning in several roles",
    source="Diversity-Enhanced Reasoning for Subjective Questions, arXiv:2507.20187",
    catalogue_ids=("multirole-r1",),
    axes=("reward", "data", "team"),
    formula="R'_i = R_i + w (0.5 min(1, roles_i/3) + 0.5 distinct-2_i),  then A_i as in GRPO",
    conventions={
        **GRPO.conventions,
        "diversity": "the two terms and w = shaping.0.weight = 0.2 are chosen here; w = 0 is GRPO bit for bit",
        "roles": "different names in headings such as 'As a teacher:' or 'Role: parent:' (shaping.0.heading)",
        "distinct-n": "of words in lower case, n = 2; 0 for a text of fewer words",
    },
    note="the second stage; the merged role chains of the first are demonstrations for a phase of sft before it",
    shaping=(RoleDiversity(),),
)

PM4GRPO = GSPO.but(
    name="pm4grpo",
    title="Reasoning-aware GRPO by process mining",
    source="PM4GRPO, arXiv:2510.25065",
    catalogue_ids=("pm4grpo",),
    axes=("reward", "analysis"),
    formula="r_i = [format] + R_i + 2 f_i q_i/(f_i + q_i),  f, q fitness and precision of the teacher's trace on the "
    "net mined from sample i's; then GSPO",
    conventions={
        **GSPO.conventions,
        "weights": "1 each for format (<think>, </think>, <answer>, </answer> in order), answer and conformance",
        "labels": "rules on sentences (built in, or shaping.1.rules) where the paper asks a language model",
        "miner": "pm4py's inductive miner on the sample's own trace, alignments for fitness and precision",
        "empty trace": "conformance 0",
        "no teacher": "conformance 0; the teacher's reasoning stands in the scenario's metadata",
    },
    note="activities are labelled by rules; the paper's language model as labeller is an outside judge",
    shaping=(OrderedStages(), Conformance()),
)
