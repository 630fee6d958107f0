"""StarCraft II's learning environment: actions are a function and its arguments (Vinyals et al., arXiv:1708.04782).

A whole action is drawn part by part, `pi(a | s) = prod_l pi(a_l | a_<l, s)`: first the function, of those that are
there now, then each argument that it takes, given all parts before it (`Parts` of `hocket.methods.marl.sc2le.chain`).
The learner is an advantage actor-critic on the log-prob of the whole action. `ChainEntropy` is the entropy bonus of
such a policy, and asks for it; a recipe without it draws the arguments of an action independently of each other.

StarCraft itself is a program that no package has. The worlds `rts:beacon` and `rts:shards` have the functions,
arguments and availability of its mini-games on a small grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hocket.core.policy_parts import PolicyPart
from hocket.methods.base.a2c import A2C
from hocket.methods.base.ppo import PPO
from hocket.methods.marl.sc2le.chain import Chained
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.value import ValueLoss


@dataclass(frozen=True)
class ChainEntropy(EntropyBonus):
    """`EntropyBonus` of a chain: `H = sum_l H(pi(. | a_<l, s))`, along the action that was taken."""

    policy_parts: ClassVar[tuple[PolicyPart, ...]] = (Chained(),)


SC2LE = A2C.but(
    name="sc2le",
    title="StarCraft II's baseline: autoregressive actions with masks, by advantage actor-critic",
    source="Vinyals et al., StarCraft II: A New Challenge for Reinforcement Learning, arXiv:1708.04782",
    catalogue_ids=("sc2le",),
    axes=("environment", "policy"),
    formula="L = -mean_t A_t sum_l log pi(a_tl | a_t<l, s_t) + 1/2 mean_t (V_t - y_t)^2 - 0.01 mean_t sum_l "
    "H(pi(. | a_t<l, s_t))",
    conventions={
        **A2C.conventions,
        "order of parts": "the function, then screen, then screen2; the paper leaves it open",
        "networks": "one for each part, which reads what is seen and one-hots of the parts before; the paper's share "
        "layers, and draw the coordinates of a point apart or from a map of the screen",
        "arguments": "those that a function does not take are 0, and nothing is learnt of them",
        "entropy": "bonus 0.01, of the conditionals along the action taken, whose mean is the entropy",
    },
    task="rts:beacon",
    regularisers=(
        ValueLoss(coefficient=0.5, aggregate="token-mean"),
        ChainEntropy(coefficient=0.01, aggregate="token-mean"),
    ),
)


SC2LE_PPO = PPO.but(
    name="sc2le-ppo",
    title="Autoregressive actions with masks, by PPO",
    source=SC2LE.source,
    catalogue_ids=("sc2le",),
    axes=("environment", "policy"),
    formula="as ppo, r_t = prod_l pi(a_tl | a_t<l, s_t) / pi_old(a_tl | a_t<l, s_t)",
    conventions={**PPO.conventions, **{key: SC2LE.conventions[key] for key in ("order of parts", "arguments")}},
    task="rts:beacon",
    regularisers=(*PPO.regularisers, ChainEntropy(coefficient=0.01, aggregate="token-mean")),
)
