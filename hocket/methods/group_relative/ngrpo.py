"""NGRPO: GRPO that compares every group with one more sample of the best reward (Nan et al., arXiv:2509.18851).

The virtual sample enters mean and deviation but is not learnt from, so a group of wrong answers gets negative
advantages instead of none; the clip is asymmetric. Settings of `GroupRelative` and `ClippedSurrogate`, no new piece.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO

NGRPO = GRPO.but(
    name="ngrpo",
    title="Negative-enhanced GRPO",
    source="Nan et al., arXiv:2509.18851",
    catalogue_ids=("ngrpo",),
    formula="A_i = (R_i - mean(R_1..R_G, R_max))/(std(R_1..R_G, R_max) + eps),  clip(r, 1 - 0.16, 1 + 0.24)",
    conventions={
        **GRPO.conventions,
        "virtual sample": "one of return credit.virtual = [1.0] per group, the largest reward of the task",
        "degrees of freedom": "1: the sum of squares over G + 1 is divided by G",
        "group of one": "compared with the virtual sample",
        "constant group": "advantage 0 at the largest reward, negative below it",
        "clipping side": "0.16 below, 0.24 above (the released script)",
        "updates per batch": "4 mini-batches, as in the released script (1024 prompts by 256)",
    },
    **{"credit.virtual": (1.0,), "objective.low": 0.16, "objective.high": 0.24, "update.minibatches": 4},
)
