"""Games of a protagonist and an adversary as arrays, and a walker that gusts throw back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.hooks.meta_solvers import nash
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.worlds import WorldFamily


@dataclass(frozen=True, eq=False)
class DisturbedGame:
    """A protagonist with A actions, an adversary with B, at the same time; what one earns the other loses.

    An answer is the protagonist's policy `[S, A]`; its value is what it earns against the worst adversary.

    Attributes:
        transition: `[S, A, B, S]`. reward: `[S, A, B]`. start: `[S]`. discount: below 1.
    """

    transition: Array
    reward: Array
    start: Array
    discount: float
    name: str

    def quality(self, value: Array) -> Array:
        """`r + discount E V(s')`, `[S, A, B]`."""
        table: Array = self.reward + self.discount * self.transition @ value
        return table

    def against(self, adversary: Array) -> TabularMDP:
        """What an adversary `[S, B]` leaves the protagonist to decide."""
        transition = np.einsum("sb,sabt->sat", adversary, self.transition)
        reward = np.einsum("sb,sab->sa", adversary, self.reward)
        return TabularMDP(transition, reward, self.start, discount=self.discount, name=self.name)

    def facing(self, policy: Array) -> TabularMDP:
        """What a policy `[S, A]` leaves the adversary to decide, which earns what the protagonist loses."""
        transition = np.einsum("sa,sabt->sbt", policy, self.transition)
        reward = -np.einsum("sa,sab->sb", policy, self.reward)
        return TabularMDP(transition, reward, self.start, discount=self.discount, name=self.name)

    def value(self, answer: Array) -> float:
        return -self.facing(answer).optimum

    @cached_property
    def calm(self) -> float:
        """What the best policy earns against an adversary that acts by chance."""
        states, _, others = self.reward.shape
        return self.against(np.full((states, others), 1 / others)).optimum

    @cached_property
    def optimum(self) -> float:
        """What can be held against any adversary, by Shapley's iteration."""
        value = np.zeros(len(self.reward))
        while True:
            after = np.array([nash(table)[1] for table in self.quality(value)])
            if float(np.abs(after - value).max()) < 1e-7:
                return float(self.start @ after)
            value = after


def gusts(length: int) -> DisturbedGame:
    """A walker on a track of so many cells, on one of three lanes at each step; an adversary sends a gust along one.

    Lanes go on with the chances 0.9, 0.7 and 0.5. A cell onward pays 1; a gust on the walker's own lane throws it back
    to the start. From the last cell the walker begins again.

    Raises:
        ConfigurationError: for less than 2 cells.
    """
    if length < 2:
        raise ConfigurationError(f"world gusts:{length}: its track has at least 2 cells")
    pace = np.array([0.9, 0.7, 0.5])
    transition, reward = np.zeros((length, 3, 3, length)), np.zeros((length, 3, 3))
    for cell in range(length):
        for lane, chance in enumerate(pace):
            for gust in range(3):
                if lane == gust:
                    transition[cell, lane, gust, 0] = 1.0
                else:
                    transition[cell, lane, gust, (cell + 1) % length] += chance
                    transition[cell, lane, gust, cell] += 1 - chance
                    reward[cell, lane, gust] = chance * (1.0 if cell < length - 1 else 2.0)
    return DisturbedGame(transition, reward, np.eye(length)[0], 0.9, f"gusts:{length}")


GUSTS = WorldFamily(
    name="gusts", description="a walker that an adversary's gusts throw back, for qarl", make=gusts, size=(4,)
)
