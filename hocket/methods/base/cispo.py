"""CISPO: GRPO that clips the importance weight, not the update (MiniMax-M1, arXiv:2506.13585).

Where GRPO's clip silences a decision, here the ratio is only capped and held constant as a factor of the log-prob, so
every decision keeps a gradient. That is `ClippedImportanceWeight` of `hocket.objectives.importance`; credit is GRPO's.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO
from hocket.objectives.importance import ClippedImportanceWeight

CISPO = GRPO.but(
    name="cispo",
    title="Clipped Importance Sampling Policy Optimisation",
    source="MiniMax-M1, arXiv:2506.13585",
    formula="L = -1/sum_i n_i sum_i sum_t sg[min(r_it, 1 + high)] A_i log pi_it",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over all decisions of the batch",
        "clipping side": "above alone, weight at most 1 + 4 (the paper gives no number; ScaleRL's order of magnitude)",
        "detached": GRPO.conventions["detached"] + "; so is the clipped ratio",
        "KL": "none, as in the paper",
        "sampling": "plain groups; the paper adds DAPO's dynamic sampling and length penalty",
    },
    objective=ClippedImportanceWeight(low=None, high=4.0, aggregate="token-mean"),
)
