"""Games of several agents with one reward for all, small enough to enumerate, and joint policies in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.worlds import WorldFamily


@dataclass(frozen=True, eq=False)
class Cooperative:
    """A process whose action is everybody's: number `a_1 * A_2 * .. * A_n + .. + a_n`.

    An answer is a joint policy `[S, A_1 * .. * A_n]`.

    Attributes:
        process: of all together. moves: how many each agent has.

    Raises:
        ConfigurationError: where they do not fit together, or there is a horizon.
    """

    process: TabularMDP
    moves: tuple[int, ...]

    def __post_init__(self) -> None:
        needed = int(np.prod(self.moves))
        if needed != self.process.actions or self.process.horizon is not None:
            raise ConfigurationError(
                f"{self.process.name}: agents with {self.moves} moves need {needed} joint actions and no horizon; "
                f"there are {self.process.actions}"
            )

    @property
    def name(self) -> str:
        return self.process.name

    @cached_property
    def optimum(self) -> float:
        return self.process.optimum

    def value(self, policy: Array) -> float:
        return self.process.value(policy)


def penalty(states: int) -> Cooperative:
    """Two agents with three moves: in each state two pairs pay 10, a safe one 2, and a mistake costs.

    Which pairs those are was drawn for every state; where it goes on is left to chance. To take one of the best
    pairs for the other costs 100 (Claus and Boutilier's penalty game, 1998).
    """
    draw = Key.of(0).derive("penalty", states).numpy()
    reward = np.zeros((states, 3, 3))
    pay = np.array([[10.0, 0, -100], [0, 2, 0], [-100, 0, 10]])
    for state in range(states):
        reward[state] = pay[draw.permutation(3)][:, draw.permutation(3)]
    transition = draw.dirichlet(np.ones(states), size=(states, 9))
    start = np.full(states, 1 / states)
    return Cooperative(
        TabularMDP(transition, reward.reshape(states, 9), start, discount=0.5, name=f"penalty:{states}"), (3, 3)
    )


def joint(policies: Sequence[Array]) -> Array:
    """`[S, A_1, .., A_n]`, the product of `pi_i(a_i | s, a_1..a_{i-1})`, each `[S, A_1, .., A_i]`."""
    product: Array = np.ones(policies[0].shape[:1])
    for policy in policies:
        product = product[..., None] * policy
    return product


def localised(policies: Sequence[Array], quality: Array) -> list[Array]:
    """Of each agent `Q_i(s, a_1..a_i)`: Q `[S, A_1, .., A_n]` averaged over the moves of those after it."""
    qualities = [quality]
    for policy in policies[:0:-1]:
        qualities.append((qualities[-1] * policy).sum(-1))
    return qualities[::-1]


PENALTY = WorldFamily(
    name="penalty", description="two who had better meet, in states where that is elsewhere", make=penalty, size=(2,)
)
