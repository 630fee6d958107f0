"""DMPO: DPO over whole agent episodes whose early turns weigh more (Shi et al., arXiv:2406.14868).

Each turn's log-ratio to the reference is weighed by a discount normalised by the number of turns, so that episodes of
different lengths are comparable: setting `turn_discount` of `Pairwise` (`hocket.objectives.preference`), 0.7 as in the
authors' code.
"""

from __future__ import annotations

from hocket.core.requirements import Requirement
from hocket.methods.base.dpo import ONLINE_DPO

DMPO = ONLINE_DPO.but(
    name="dmpo",
    title="Direct Multi-Turn Preference Optimisation: early turns weigh more, and lengths are normalised",
    source="Shi et al., arXiv:2406.14868, and the authors' code",
    family="agents",
    catalogue_ids=("dmpo",),
    axes=("objective",),
    formula="L = -mean_pairs log sigmoid(beta sum_j phi(j, T_w) d_j^w - beta sum_j phi(j, T_l) d_j^l),  "
    "d_j = log pi(a_j | s_j) - log pi_ref(a_j | s_j),  phi(j, T) = gamma^j (1 - gamma^(T-j)) / (1 - gamma^T)",
    conventions={
        **ONLINE_DPO.conventions,
        "aggregation": "log-probs summed over a turn's decisions, turns weighted by phi, mean over pairs",
        "gamma": "0.7, the default of the released code; 1 gives phi = (T - j) / T",
        "turns": "those of the learning policy with a decision that counts, from 0; what tools, environments and "
        "others say is no decision",
        "pairs": "one per scenario, best against worst of 8 of the policy's own; the paper pairs an expert's episode "
        "with the policy's, for which rollout = hocket.rollout.Preferences",
    },
    task="maze?width=3&height=3&steps=10&reading=number",
    requires=(Requirement.TURNS,),
    **{"objective.turn_discount": 0.7},
)
