"""Reward models: scorers that learn from pairs, labels or numbers what a good answer is.

A scorer (`hocket.policies.scorer`) reads an answer to its end and gives a number. `reward-model` learns it from pairs
after Bradley and Terry (1952), as for InstructGPT (Ouyang et al., arXiv:2203.02155, section 3.5); `reward-binary` from
answers that are known to be good or bad, `reward-regression` from scores. `--reward model:RUN` then pays by it.
"""

from __future__ import annotations

from hocket.credit.pairs import AllPairs
from hocket.credit.score_positions import AtScores, ReadAt
from hocket.objectives.scores import BradleyTerry, LabelledScore, RegressedScore
from hocket.recipe import Recipe
from hocket.rollout.demonstrations import Labelled, Preferences, Ranked

READ = {
    "place": "the score is read after the last token of an answer, its end of turn included",
    "head": "linear on the last state, without bias, drawn from N(0, 1/(width + 1)); the trunk is trained with it",
    "weights": "pairs that carry one count by it",
    "aggregation": "mean over what counts: pairs, answers or steps of the batch",
    "detached": "labels, margins and weights are constants",
    "temperature": "none: nothing is drawn",
    "truncated samples": "read where they end",
}


REWARD_MODEL = Recipe(
    name="reward-model",
    title="Reward model from pairs (Bradley-Terry)",
    source="Bradley and Terry 1952; Ouyang et al., arXiv:2203.02155, section 3.5",
    family="reward-model",
    axes=("objective", "credit"),
    formula="L = mean_pairs w (-t log sigmoid(h) - (1-t) log sigmoid(-h) + c (r_w + r_l)^2),  h = r_w - r_l - m",
    conventions={
        **READ,
        "pairs": "each scenario's chosen against its rejected response; of several scored ones all that differ",
        "margin": "that of the data (`margin`), else 0 (arXiv:2307.09288, equation 2)",
        "label smoothing": "0; `objective.label_smoothing` mixes in the other order",
        "centring": "0; `objective.centring` draws the sum of a pair's rewards to 0 (arXiv:2312.09244)",
    },
    task="graded-sums",
    rollout=Preferences(),
    credit=ReadAt(AllPairs()),
    objective=BradleyTerry(),
)


REWARD_MODEL_CENTRED = REWARD_MODEL.but(
    name="reward-model-centred",
    title="Reward model from pairs, its rewards centred",
    source="Eisenstein et al., arXiv:2312.09244, section 2",
    **{"objective.centring": 0.01},
)


REWARD_BINARY = Recipe(
    name="reward-binary",
    title="Reward model from single answers known to be good or bad (logistic)",
    source="logistic regression on the trunk's last state; as a verifier Cobbe et al., arXiv:2110.14168",
    family="reward-model",
    axes=("objective", "credit"),
    formula="L = mean_i -y_i log sigmoid(s_i) - (1 - y_i) log sigmoid(-s_i)",
    conventions={**READ, "score": "log-odds that the answer is good"},
    task="graded-sums",
    rollout=Labelled(),
    credit=AtScores(of=("label",)),
    objective=LabelledScore(of="label"),
)


REWARD_REGRESSION = Recipe(
    name="reward-regression",
    title="Reward model from scores (squared error)",
    source="least squares on the trunk's last state",
    family="reward-model",
    axes=("objective", "credit"),
    formula="L = mean_i (s_i - y_i)^2",
    conventions={**READ, "scores": "as the data have them, neither centred nor scaled"},
    task="graded-sums",
    rollout=Ranked(),
    credit=AtScores(of=("reward",)),
    objective=RegressedScore(of="reward"),
)
