"""rDPO: DPO whose loss is unbiased though labels are flipped with a known chance (Chowdhury et al., arXiv:2403.00409).

`Robust` of `hocket.objectives.links`: the expectation of its loss over flipped labels is DPO's over clean ones.
"""

from __future__ import annotations

from hocket.methods.base.dpo import DPO, RECORDED
from hocket.objectives.links import Robust

ROBUST_DPO = DPO.but(
    name="robust-dpo",
    title="Provably robust DPO for flipped labels",
    source="Chowdhury et al., arXiv:2403.00409, eq. 12",
    axes=("objective",),
    formula="L = mean_pairs ((1-e) l(h) - e l(-h))/(1-2e),  l = -log sigmoid,  h = beta (d_w - d_l)",
    task="graded-sums?noise=0.2",
    conventions={
        **RECORDED,
        "e": "objective.link.flip = 0.2, the chance that a label is wrong, which must be known; "
        "objective.label_smoothing with the logistic link is conservative DPO, whose optimum stays bounded",
    },
).but({"objective.link": Robust(flip=0.2)})
