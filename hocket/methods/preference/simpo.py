"""SimPO: the mean log-prob is the reward, without a reference and with a margin (Meng et al., arXiv:2405.14734).

What the policy finds likely per token is what it is to generate, so chosen answers must be likelier than rejected ones
by gamma (`Likelihood(length_normalised)` of `hocket.objectives.measures`). No second model is held.
"""

from __future__ import annotations

from hocket.methods.base.dpo import DPO, RECORDED
from hocket.objectives.measures import Likelihood
from hocket.objectives.preference import Pairwise

SIMPO = DPO.but(
    name="simpo",
    title="Simple Preference Optimisation",
    source="Meng et al., arXiv:2405.14734, eq. 6",
    axes=("objective",),
    formula="L = -mean_pairs log sigmoid(beta/n_w log pi(y_w) - beta/n_l log pi(y_l) - gamma)",
    conventions={
        **{name: text for name, text in RECORDED.items() if name != "reference"},
        "aggregation": "log-probs averaged over a trajectory's decisions, mean over pairs",
        "beta": "2",
        "margin": "gamma = 1, half of beta; the paper tunes it between .3 and 1.6",
    },
    objective=Pairwise(beta=2.0, margin=1.0, measure=Likelihood(length_normalised=True)),
)


ALPHAPO = SIMPO.but(
    name="alphapo",
    title="AlphaPO: the shape of SimPO's reward",
    source="Gupta et al., arXiv:2501.03884",
    formula="L = -mean_pairs log sigmoid(beta (r_w - r_l) - gamma),  r = (1 - p^-alpha)/alpha,  log p = log pi(y)/n",
    conventions={**SIMPO.conventions, "alpha": "0.25, the authors' choice for instruction models"},
).but({"objective.measure.alpha": 0.25})
