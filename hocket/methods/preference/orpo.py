"""ORPO: supervised fine-tuning with a penalty on the odds of rejected answers (Hong et al., arXiv:2403.07691).

One stage without a reference: the likelihood of the chosen answer, and lambda times a logistic loss on the difference
of log-odds of both (`Odds` of `hocket.objectives.measures`).
"""

from __future__ import annotations

from hocket.methods.base.dpo import DPO, RECORDED
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.measures import Odds
from hocket.objectives.preference import Pairwise

ORPO = DPO.but(
    name="orpo",
    title="Odds Ratio Preference Optimisation",
    source="Hong et al., arXiv:2403.07691, eq. 6",
    axes=("objective",),
    formula="L = -1/sum_w n_w sum_w log pi(y_w) - lambda mean_pairs log sigmoid(o_w - o_l),  o = log p/(1-p), "
    "log p = log pi(y)/n",
    conventions={
        **{name: text for name, text in RECORDED.items() if name != "reference"},
        "aggregation": "log p is the mean over a trajectory's decisions; mean over pairs",
        "imitation": "of the preferred answers alone, mean over all their decisions; TRL's counts prompt tokens too",
        "lambda": "objective.coefficient = 0.1, which TRL calls beta",
    },
    objective=Pairwise(beta=1.0, coefficient=0.1, measure=Odds()),
    regularisers=(NegativeLogLikelihood(aggregate="token-mean"),),
)
