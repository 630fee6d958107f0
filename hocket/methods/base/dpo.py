"""Direct preference optimisation (Rafailov et al., arXiv:2305.18290), on recorded pairs or on the policy's own samples.

A logistic loss on the difference of two log-ratios to the reference (`Pairwise` of `hocket.objectives.preference`)
takes the place of a reward model. `dpo` reads pairs from the task (`Preferences`); in `online-dpo` a scenario's best
sample meets its worst (`BestAgainstWorst` of `hocket.credit.pairs`), as in Guo et al., arXiv:2402.04792. Other links,
measures, weights and margins are settings of the loss: `--objective.link hinge`, `--objective.tail 0.5`.
"""

from __future__ import annotations

from hocket.core.batch import GroupBy
from hocket.credit.pairs import BestAgainstWorst
from hocket.methods.base.conventions import COMMON
from hocket.objectives.preference import Pairwise
from hocket.recipe import Recipe
from hocket.rollout.demonstrations import Preferences
from hocket.rollout.independent import Independent

RECORDED = {
    **COMMON,
    "aggregation": "log-probs summed over a trajectory's decisions, mean over pairs",
    "pairs": "each scenario's chosen against its rejected response",
    "numbers": "a pair's weight multiplies its loss, its margin is taken from the reward difference, and a probability "
    "below 1 mixes the losses of both orders",
    "reference": "the policy before training",
}
"""What recipes on recorded pairs agree on."""

DPO = Recipe(
    name="dpo",
    title="Direct Preference Optimisation on recorded pairs",
    source="Rafailov et al., arXiv:2305.18290",
    family="preference",
    axes=("objective", "data"),
    formula="L = -mean_pairs log sigmoid(beta (log pi(y_w)/ref(y_w) - log pi(y_l)/ref(y_l)))",
    task="graded-sums",
    conventions=RECORDED,
    rollout=Preferences(),
    credit=BestAgainstWorst(by=GroupBy("scenario")),
    objective=Pairwise(beta=0.1),
)


ONLINE_DPO = DPO.but(
    name="online-dpo",
    title="Direct Preference Optimisation, online: the best sample against the worst",
    source="Guo et al., arXiv:2402.04792; the loss of arXiv:2305.18290",
    axes=("objective", "credit"),
    task=None,
    conventions={
        **COMMON,
        "aggregation": RECORDED["aggregation"],
        "pairs": "one per scenario, highest against lowest reward",
        "group of one": "no pair",
        "constant group": "no pair",
        "reference": RECORDED["reference"],
    },
    rollout=Independent(samples=8),
)
