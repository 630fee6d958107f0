"""AReaL: samples some updates old, and a loss that tells who sampled from whom to stay near (arXiv:2505.24298).

PPO's clip keeps the policy near the one that sampled, which holds it back when that one is several updates old. Here
the clip is about the proximal policy, the one just before the update; the policy that sampled enters as a weight
(the decoupled loss of Hilton et al., arXiv:2110.00641), and tokens whose weight is above a cap count nothing.

The asynchronous half of the paper is the run's (`hocket.distributed.cluster.admission`, `arrival`):

    hocket train --recipe areal --cluster local --samplers 2 --order arrival --lag 4

draws and learns at the same time, with no sample more than 4 versions old; without it all weights are 1 and this is
GRPO. `hocket simulate` shows what that does on many nodes.
"""

from __future__ import annotations

from hocket.credit.corrections import MaskedImportance
from hocket.credit.kept_denominators import Counted
from hocket.methods.base.grpo import GRPO

AREAL = GRPO.but(
    name="areal",
    title="AReaL: decoupled PPO for asynchronous training",
    source="AReaL, arXiv:2505.24298",
    catalogue_ids=("areal",),
    axes=("system", "rollout", "objective"),
    formula="J = E[ w min(u A, clip(u) A) ],  u = pi/pi_prox,  w = pi_prox/pi_behaviour, 0 where above 5",
    conventions={
        **GRPO.conventions,
        "old policy": "the learner's own log-probs before the update; the sampler's enter the weight alone",
        "importance weight": "per decision; above 5, the released default, the decision counts 0 and stays in the "
        "denominators",
        "proximal log-probs": "computed, not interpolated between versions as in the released approximation",
        "interruption": "none as shipped: what was begun ends with its weights; samplers can, --interrupt true",
    },
    correction=Counted(of=MaskedImportance(low=0.0, high=5.0, level="decision", reweight=True)),
)
