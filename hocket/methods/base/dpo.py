"""Direct preference optimisation on the policy's own samples or recorded pairs (Rafailov et al., arXiv:2305.18290).

A logistic loss on the difference of two log-ratios to the reference (`DPO` of `hocket.objectives.preference`) takes the
place of a reward model. Online, a scenario's best sample meets its worst (`BestAgainstWorst` of `hocket.credit.pairs`),
as in Guo et al., arXiv:2402.04792; `dpo-offline` reads pairs from the task (`Preferences`).
"""

from __future__ import annotations

from hocket.core.batch import GroupBy
from hocket.credit.pairs import BestAgainstWorst
from hocket.methods.base.conventions import COMMON
from hocket.objectives.preference import DPO as DPOObjective
from hocket.recipe import Recipe
from hocket.rollout.demonstrations import Preferences
from hocket.rollout.independent import Independent

DPO = Recipe(
    name="dpo",
    title="Direct Preference Optimisation, online: the best sample against the worst",
    source="Rafailov et al., arXiv:2305.18290; online pairs as in Guo et al., arXiv:2402.04792",
    family="preference",
    axes=("objective", "credit"),
    formula="L = -mean_pairs log sigmoid(beta (log pi(y_w)/ref(y_w) - log pi(y_l)/ref(y_l)))",
    conventions={
        **COMMON,
        "aggregation": "log-probs summed over a trajectory's decisions, mean over pairs",
        "pairs": "one per scenario, highest against lowest reward",
        "group of one": "no pair",
        "constant group": "no pair",
        "reference": "the policy before training",
    },
    rollout=Independent(samples=8),
    credit=BestAgainstWorst(by=GroupBy("scenario")),
    objective=DPOObjective(beta=0.1),
)


DPO_OFFLINE = DPO.but(
    name="dpo-offline",
    title="Direct Preference Optimisation on recorded pairs",
    source="Rafailov et al., arXiv:2305.18290",
    conventions={
        **COMMON,
        "aggregation": DPO.conventions["aggregation"],
        "pairs": "each scenario's chosen against its rejected response",
        "reference": "the policy before training",
    },
    rollout=Preferences(),
)
