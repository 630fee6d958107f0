"""IPO: preferences are fitted by a square, so certain ones do not send the policy to infinity (arXiv:2310.12036).

DPO's logistic loss has no finite minimum where one answer always wins; IPO's asks for a log-ratio difference of
1 / (2 beta) and no more (`Squared` of `hocket.objectives.links`).
"""

from __future__ import annotations

from hocket.methods.base.dpo import DPO, RECORDED

IPO = DPO.but(
    name="ipo",
    title="Identity Preference Optimisation",
    source="Azar et al., arXiv:2310.12036, eq. 17; per token as the authors confirmed to TRL",
    axes=("objective",),
    formula="L = mean_pairs (d_w/n_w - d_l/n_l - 1/(2 beta))^2,  d = log pi(y)/ref(y)",
    conventions={
        **RECORDED,
        "aggregation": "log-ratios averaged over a trajectory's decisions, mean over pairs; "
        "objective.measure.length_normalised = false has the paper's sums",
        "beta": "the paper's tau, 0.1",
    },
).but({"objective.link": {"type": "hocket.objectives.Squared"}, "objective.measure.length_normalised": True})
