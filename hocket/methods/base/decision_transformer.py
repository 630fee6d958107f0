"""Decision transformer: actions as the next word of returns, observations and actions (Chen et al., arXiv:2106.01345).

`WantedReturn` of `hocket.policies.wanted_returns` is the policy: causal attention over the latest decisions,
each of which is three tokens, the return still wanted, what is seen and what was done. It is trained like behaviour
cloning, on sequences of recorded rows. In play the return of the best recorded episode is wanted.
"""

from __future__ import annotations

from hocket.methods.base.bc import BC
from hocket.objectives.wanted_returns import ConditionedLikelihood
from hocket.policies.wanted_returns import WantedReturn
from hocket.rollout.transitions import Transitions
from hocket.update.gradient import GradientStep

DECISION_TRANSFORMER = BC.but(
    name="decision-transformer",
    title="Decision transformer",
    source="Chen et al., arXiv:2106.01345",
    axes=("objective", "policy", "data"),
    formula="L = -mean log pi(a_t | R_{t-K+1}, s_{t-K+1}, a_{t-K+1}, .., R_t, s_t),  R_t = sum_{u >= t} r_u of the "
    "data; in play R_1 = max R_1 of the data, R_{t+1} = R_t - r_t",
    conventions={
        **BC.conventions,
        "updates": "100 gradients a step, each on 32 sequences drawn anew",
        "sequences": "of up to 20 rows that end at a row drawn uniformly, so those near a beginning are shorter",
        "vectors": "a Gaussian with one learnt deviation for each dimension; the authors take the square error",
    },
    store=Transitions(rows=32, length=20, gradients_per_step=100, draws=100, begin=1),
    objective=ConditionedLikelihood(policy=WantedReturn(window=20)),
    update=GradientStep(lr=1e-3, clip_norm=0.25),
)
