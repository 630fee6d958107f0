"""SPO: an answer is worth the share of the policy's own other answers that it beats (Swamy et al., arXiv:2401.04056).

Preferences need not be transitive, so no reward can stand for them; but their game is symmetric, and a policy that
plays itself finds its minimax winner. Any policy gradient learns from the win share (`WinShare` of
`hocket.rewards.wins`).
"""

from __future__ import annotations

from hocket.methods.base.rloo import RLOO
from hocket.rewards.wins import PREFERENCES, WinShare

SPO_MINIMAX = RLOO.but(
    name="spo-minimax",
    title="Self-Play Preference Optimisation: the share of one's own answers that are beaten is the reward",
    source="Swamy et al., arXiv:2401.04056",
    family="preference",
    catalogue_ids=("spo-minimax",),
    axes=("reward", "team"),
    formula="r_i = 1/(k-1) sum_{j != i} P(y_i > y_j)",
    conventions={
        **RLOO.conventions,
        **PREFERENCES,
        "learner": "the policy gradient with the group's others as baseline; the paper takes SAC, PPO and the like",
    },
    shaping=(WinShare(),),
)
