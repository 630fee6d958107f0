"""CPO: DPO against a uniform reference, beside imitation of what is preferred (Xu et al., arXiv:2401.08417)."""

from __future__ import annotations

from hocket.methods.base.dpo import DPO, RECORDED
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.measures import Likelihood
from hocket.objectives.preference import Pairwise

CPO = DPO.but(
    name="cpo",
    title="Contrastive Preference Optimisation",
    source="Xu et al., arXiv:2401.08417, eq. 5",
    axes=("objective",),
    formula="L = -mean_pairs log sigmoid(beta log pi(y_w)/pi(y_l)) - 1/sum_w n_w sum_w log pi(y_w)",
    conventions={
        **{name: text for name, text in RECORDED.items() if name != "reference"},
        "imitation": "of the preferred answers, mean over all their decisions, weight 1",
        "beta": "0.1",
    },
    objective=Pairwise(beta=0.1, measure=Likelihood()),
    regularisers=(NegativeLogLikelihood(aggregate="token-mean"),),
)
