"""2-GRPO: GRPO with groups of two (It Takes Two: Your GRPO Is Secretly DPO, arXiv:2510.00977).

Where the two answers differ in reward, one gets +1 and the other -1, as in a preference pair; where they agree, neither
gets anything. Two settings, no new piece.
"""

from __future__ import annotations

from hocket.methods.base.grpo import GRPO

TWO_GRPO = GRPO.but(
    name="two-grpo",
    title="2-GRPO: groups of two",
    source="It Takes Two: Your GRPO Is Secretly DPO, arXiv:2510.00977",
    catalogue_ids=("two-grpo",),
    axes=("rollout", "credit", "analysis"),
    formula="G = 2: A = +1, -1 where the rewards differ and 0 where they agree; loss as GRPO",
    conventions={**GRPO.conventions, "degrees of freedom": "0, so that a decided pair has advantages +1 and -1"},
    **{"rollout.samples": 2, "credit.ddof": 0},
)
