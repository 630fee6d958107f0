"""GVPO: GRPO whose centred log-ratios are fitted to centred rewards (Zhang et al., arXiv:2504.19599).

The partition function of the KL-regularised optimum cancels within a group, so that optimum is the least squares
solution whoever sampled; nothing is clipped. `AdvantageRegression` of `hocket.objectives.regression`.
"""

from __future__ import annotations

from hocket.methods.base.conventions import CENTRED
from hocket.methods.base.grpo import GRPO
from hocket.objectives.regression import AdvantageRegression

GVPO = GRPO.but(
    name="gvpo",
    title="Group Variance Policy Optimisation",
    source="Zhang et al., arXiv:2504.19599",
    catalogue_ids=("gvpo",),
    axes=("objective", "credit"),
    formula="L = mean_groups 1/(G-1) sum_i 1/2 (R_i - mean R - beta (d_i - mean d))^2,  d = log pi(y)/pi_ref(y)",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "aggregation": "log-ratios summed over a trajectory, 1/(G-1) within a group, mean over groups",
        "clipping side": "nothing is clipped",
        "anchor": "the policy before training, so that the optimum is one and the same in every step; the released "
        "code anchors at the policy that sampled (objective.against = old)",
        "KL": "beta = objective.temperature = 0.1, as in the released script",
        "constant group": "advantage 0; its log-ratios are still pulled together",
    },
    objective=AdvantageRegression(temperature=0.1, centred=True, against="reference", coefficient=0.5, unbiased=True),
    **{"credit.scale": None},
)
