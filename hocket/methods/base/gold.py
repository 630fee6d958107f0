"""GOLD: distillation from a teacher with another tokenizer (Patiño et al. 2025; TRL 1.16, GOLDTrainer).

An answer is read by both tokenizers and cut where both have a token's end. Over such spans the models' distributions
are merged (`hocket.core.span_divergences`): tokens of both vocabularies are compared by a divergence, the others by
rank. The rest is GKD's: the student writes some of the answers, the data the others.
"""

from __future__ import annotations

from hocket.core.span_divergences import SharedTokens, SortedProbabilities
from hocket.methods.base.distillation import GKD, TEACHER, Distillation

GOLD = GKD.but(
    name="gold",
    title="General online logit distillation: across tokenizers",
    source="Patiño et al. 2025, Unlocking On-Policy Distillation for Any Model Family, and TRL 1.16, GOLDTrainer",
    formula="L = 1/N sum_i 1/G_i sum_g [w D_beta(p_g, q_g over shared tokens) + (1 - w) sum_j |p_g(j) - q_g(j)|],  "
    "p_g = p(. | a_<t) prod_{k in g, k < t} p(a_k | a_<k),  t the last token of span g",
    conventions={
        **GKD.conventions,
        **TEACHER,
        "teacher": "the learner's reference: `--teacher MODEL`, or a run, of any tokenizer; it reads the prompt by its "
        "own chat template",
        "aggregation": "mean over an answer's spans, then over answers",
        "merging": "the chain rule, at a span's last token (TRL's uld_token_merge_strategy bayesian; its default, "
        "observed, reads every distribution one token late)",
        "ends": "the ends of answers are a span, and the tokens that end them are one token; TRL leaves ends out "
        "(objective.divergence.ends)",
        "w": "the share of the teacher's vocabulary that both have (objective.divergence.shared, .others)",
    },
    objective=Distillation(SharedTokens(), aggregate="sequence-mean"),
)


ULD = GOLD.but(
    name="uld",
    title="Universal logit distillation: probabilities by rank",
    source="Boizard et al., arXiv:2402.12030, on the spans of TRL 1.16's GOLDTrainer",
    formula="L = 1/N sum_i 1/G_i sum_g sum_j |p_g(j) - q_g(j)|,  both in descending order",
    conventions={**GOLD.conventions, "w": "0: no token is compared by its name", "beta": "none"},
    objective=Distillation(SortedProbabilities(), aggregate="sequence-mean"),
)
