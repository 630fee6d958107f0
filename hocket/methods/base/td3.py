"""TD3: a deterministic actor, two critics, and a slower actor (Fujimoto et al., arXiv:1802.09477).

`DeterministicValues` of `hocket.policies.action_values` is the policy. Its backup takes the slow actor's action with
cut off noise, and the smaller of two slow critics; actor and slow copies move with every second gradient.
"""

from __future__ import annotations

from hocket.methods.base.ddpg import DDPG
from hocket.objectives.action_values import CriticLoss
from hocket.policies.action_values import DeterministicValues
from hocket.update.following import FollowingStep
from hocket.update.parts import Pace

TD3 = DDPG.but(
    name="td3",
    title="Twin delayed DDPG",
    source="Fujimoto et al., arXiv:1802.09477",
    formula="L = sum_k (Q_k(s, a) - y)^2 - Q_1(s, mu(s)),  "
    "y = r + gamma min_k Q-_k(s', mu-(s') + clip(eps, -c, c)),  eps ~ N(0, sigma^2)",
    conventions={
        **DDPG.conventions,
        "critics": "2; the smaller value counts in the backup, the first one leads the actor",
        "backup": "noise of deviation 0.2, cut off at 0.5; actions are clipped to their range",
        "delay": "the actor and all slow copies move with every second gradient",
    },
    objective=CriticLoss(DeterministicValues(ensemble=2, smoothing=0.2, cutoff=0.5), coefficient=1.0),
    update=FollowingStep(lr=1e-3, clip_norm=None, paces={"actor": Pace(every=2)}, follow_every=2),
)
