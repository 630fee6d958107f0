"""INPO: no-regret self-play on preferences by one regression, without win rates (Zhang et al., arXiv:2407.00617).

In each round the policy's own answers are compared, and the loss asks for the mirror step: log-ratios, taken to a
mixture of the reference and the policy as the round began, should differ by (2P - 1)/(2 eta). A win's probability is
the pair's target (`ComparedPairs`), so the loss is the expectation over labels that an oracle would draw.
"""

from __future__ import annotations

from hocket.credit.pairs import ComparedPairs
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.objectives.links import Squared
from hocket.objectives.measures import LogRatio
from hocket.objectives.preference import Pairwise
from hocket.rewards.wins import PREFERENCES, WinShare

INPO = ONLINE_DPO.but(
    name="inpo",
    title="Iterative Nash Policy Optimisation",
    source="Zhang et al., arXiv:2407.00617, algorithm 2; the mirror step derived",
    catalogue_ids=("inpo",),
    axes=("objective", "team", "reward"),
    formula="L = mean_pairs (h - 1/(2 eta))^2,  h = log pi(y_w)/pi(y_l) - tau/eta log ref(y_w)/ref(y_l) - (1 - "
    "tau/eta) log pi_t(y_w)/pi_t(y_l);  its minimum is ref^(tau/eta) pi_t^(1-tau/eta) exp(P(y > pi_t)/eta)",
    conventions={
        **ONLINE_DPO.conventions,
        "eta": "objective.beta = 0.1, the inverse step size",
        "tau": "a third of eta: objective.measure.old = 1 - tau/eta = 2/3; both chosen here after the authors' runs",
        "pairs": "every two samples of a scenario; a pair's loss is the expectation over its label, ties included",
        **PREFERENCES,
        "round": "a step: its samples are those of pi_t, and four passes over them approach the mirror step",
        "updates per batch": "4",
        "constant group": "all tie, and are drawn towards the mixture",
    },
    shaping=(WinShare(),),
    credit=ComparedPairs(),
    objective=Pairwise(beta=0.1, link=Squared(), measure=LogRatio(old=2 / 3)),
).but({"update.epochs": 4})
