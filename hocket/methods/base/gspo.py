"""GSPO: GRPO with one importance ratio per answer (Zheng et al., arXiv:2507.18071).

The ratio that is clipped is the geometric mean of the tokens' ratios, so a whole answer is kept or dropped: setting
`ratio` of `ClippedSurrogate` (`hocket.objectives.surrogate`). `gspo-token` has the same value, differentiated token by
token, for advantages that differ within an answer.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO

GSPO = GRPO.but(
    name="gspo",
    title="Group Sequence Policy Optimisation",
    source="Zheng et al., arXiv:2507.18071",
    formula="s_i = exp(1/n_i sum_t log r_it),  L = -1/N sum_i min(s_i A_i, clip(s_i, 1-3e-4, 1+4e-4) A_i)",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over trajectories; their lengths enter s_i alone",
        "clipping side": "3e-4 below, 4e-4 above, whole trajectories",
        "KL": "none",
        "advantages that differ within a trajectory": "each decision's clipped term, then their mean",
    },
    **{"objective.ratio": "sequence", "objective.low": 3e-4, "objective.high": 4e-4},
)


GSPO_TOKEN = GSPO.but(
    name="gspo-token",
    title="GSPO differentiated decision by decision",
    formula="s_it = sg[s_i] pi_it/sg[pi_it],  L = -1/N sum_i 1/n_i sum_t min(s_it A_it, clip(s_it) A_it)",
    conventions={**GSPO.conventions, "detached": GSPO.conventions["detached"] + "; so is s_i"},
    **{"objective.ratio": "sequence-token"},
)
