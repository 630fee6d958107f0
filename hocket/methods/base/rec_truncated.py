"""REC with truncated ratios as weights (Trinity-RFT, `rec`, `weight=truncated_importance_sampling`).

Group-relative REINFORCE for samples of another policy: the ratio to that policy, cut to a wide band and held constant,
weighs the gradient of every token, and no token is masked (`ClippedImportanceWeight`).
"""

from __future__ import annotations

from hocket.methods.base.cispo import CISPO
from hocket.methods.base.conventions import CENTRED
from hocket.objectives.importance import ClippedImportanceWeight

REC_TRUNCATED = CISPO.but(
    name="rec-truncated",
    title="Group-relative REINFORCE with truncated ratios as weights",
    source="Trinity-RFT, rec with truncated_importance_sampling; Yao et al., arXiv:2509.24203",
    formula="L = -1/sum_i n_i sum_it sg[clip(r_it, 0.4, 3)] A_i log pi_it,  A_i = R_i - mean_g R",
    conventions={
        **CISPO.conventions,
        **CENTRED,
        "clipping side": "the weight, from 0.4 to 3 (Trinity's epsilon_low_prime and epsilon_high_prime)",
    },
    objective=ClippedImportanceWeight(low=0.6, high=2.0, aggregate="token-mean"),
    **{"credit.scale": None},
)
