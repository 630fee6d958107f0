"""APO: whether both answers, one or none are better than the model's own decides the loss (arXiv:2408.06266).

Anchored on the reference: with answers better than the model's the chosen one's likelihood must rise (`ApoZero`), with
worse ones it must fall, less than the rejected one's (`ApoDown`); see `hocket.objectives.links`. Without pairs the
first is `Unpaired` with no shift.
"""

from __future__ import annotations

from hocket.methods.base.dpo import DPO, RECORDED
from hocket.methods.preference.kto.method import KTO, LABELLED
from hocket.objectives.links import ApoDown, ApoZero
from hocket.rollout.demonstrations import Labelled

APO_ZERO = DPO.but(
    name="apo-zero",
    title="Anchored Preference Optimisation, zero: for answers better than the model's",
    source="D'Oosterlinck et al., arXiv:2408.06266, eq. 7",
    axes=("objective",),
    formula="L = mean_pairs 1 - sigmoid(beta d_w) + sigmoid(beta d_l),  d = log pi(y)/ref(y)",
    conventions={**RECORDED, "margins": "are refused: each answer is judged by itself"},
).but({"objective.link": ApoZero()})


APO_DOWN = APO_ZERO.but(
    name="apo-down",
    title="Anchored Preference Optimisation, down: for answers worse than the model's",
    source="D'Oosterlinck et al., arXiv:2408.06266, eq. 8",
    formula="L = mean_pairs sigmoid(beta d_w) + 1 - sigmoid(beta (d_w - d_l)),  d = log pi(y)/ref(y)",
).but({"objective.link": ApoDown()})


APO_ZERO_UNPAIRED = KTO.but(
    name="apo-zero-unpaired",
    title="APO-zero for answers that are labelled one by one",
    source="D'Oosterlinck et al., arXiv:2408.06266, eq. 7, by answer",
    axes=("objective",),
    formula="L = mean_i 1 - sigmoid(s_i beta d_i),  d = log pi(y)/ref(y)",
    conventions=LABELLED,
    rollout=Labelled(),
    shaping=(),
)
