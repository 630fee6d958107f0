"""Swarms so large that only the distribution of their agents matters, and the same swarms of finitely many.

X places, Y observations, U actions. A decision rule `[Y, U]` says how every agent acts on what it observes itself. An
answer is a rule for every start and step, `[C, T, Y, U]`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, softmax
from hocket.lab.exact.worlds import WorldFamily


@dataclass(frozen=True, eq=False)
class Swarm(ABC):
    """Agents that are all alike; what one senses and where it goes may depend on how all are spread, `mu`, `[.., X]`.

    Attributes:
        starts: `[C, X]`, distributions that episodes begin with. steps: of an episode.
    """

    starts: Array
    steps: int
    name: str = "swarm"

    def __post_init__(self) -> None:
        if self.starts.ndim != 2 or (self.starts < 0).any() or not np.allclose(self.starts.sum(-1), 1):
            raise ConfigurationError(f"{self.name}: starts are distributions [C, X] that sum to 1")
        if self.steps < 1:
            raise ConfigurationError(f"{self.name}: steps = {self.steps}; an episode has at least 1")

    @property
    @abstractmethod
    def rule(self) -> tuple[int, int]:
        """Y and U."""

    @abstractmethod
    def sensed(self, spread: Array) -> Array:
        """`[.., X, Y]`, P(y | x, mu)."""

    @abstractmethod
    def moved(self, spread: Array) -> Array:
        """`[.., X, U, X]`, P(x' | x, u, mu)."""

    @abstractmethod
    def reward(self, spread: Array) -> Array:
        """`[..]`, of a distribution; never above 1."""

    @property
    def optimum(self) -> float:
        """A bound."""
        return 1.0

    def acting(self, spread: Array, rule: Array) -> Array:
        """`[.., X, U]`, how agents of each place act under a rule `[.., Y, U]`."""
        found: Array = self.sensed(spread) @ rule
        return found

    def onward(self, spread: Array, rule: Array) -> Array:
        """`mu'`, after a step of the limit of infinitely many agents."""
        found: Array = np.einsum("...x,...xu,...xuz->...z", spread, self.acting(spread, rule), self.moved(spread))
        return found

    def drawn(self, spread: Array, rule: Array, agents: int, key: Key) -> Array:
        """The same of finitely many: how `agents` are spread that stand as `spread` says, after each drew its own."""
        acting = self.acting(spread, rule)[..., None] * self.moved(spread)
        going = acting.sum(-2)  # [.., X, X]: all that an agent draws, at once.
        counts = np.rint(spread * agents).astype(np.int64)
        going = np.clip(going, 0, 1) / going.sum(-1, keepdims=True)
        after: Array = key.numpy().multinomial(counts, going).sum(-2) / agents
        return after

    def placed(self, agents: int, starts: Array, key: Key) -> Array:
        """`starts` `[.., X]` of finitely many agents, each drawn."""
        found: Array = key.numpy().multinomial(agents, starts) / agents
        return found

    def value(self, rules: Array) -> float:
        """The mean reward after each step from all starts, in the limit."""
        spread, total = self.starts, 0.0
        for step in range(self.steps):
            spread = self.onward(spread, rules[:, step])
            total += float(self.reward(spread).mean())
        return total / self.steps


@dataclass(frozen=True, eq=False)
class Ring(Swarm):
    """Places in a ring; agents are to gather, wherever that is, and see no farther than `sight` places.

    One observes a neighbour `here`, or else on which side more of the swarm is in sight, wrongly the more often the
    less the sides differ. It stays, or steps left or right, which succeeds four times of five. The reward is the length
    of the mean of their directions (Kuramoto's order parameter): 1 where all are at one place, 0 where they are spread
    evenly.
    """

    sight: int = 3
    sharpness: float = 10.0

    @property
    def rule(self) -> tuple[int, int]:
        return 3, 3

    def sensed(self, spread: Array) -> Array:
        reach = range(1, self.sight + 1)
        left = np.sum([np.roll(spread, by, -1) for by in reach], axis=0)
        right = np.sum([np.roll(spread, -by, -1) for by in reach], axis=0)
        rightly = 1 / (1 + np.exp(-self.sharpness * (right - left)))
        return np.stack([spread, (1 - spread) * (1 - rightly), (1 - spread) * rightly], -1)

    def moved(self, spread: Array) -> Array:
        stay = np.eye(spread.shape[-1])
        ways = [stay, *(0.2 * stay + 0.8 * np.roll(stay, by, 1) for by in (-1, 1))]
        return np.broadcast_to(np.stack(ways, 1), (*spread.shape, 3, spread.shape[-1]))

    def reward(self, spread: Array) -> Array:
        turned = np.exp(2j * np.pi * np.arange(spread.shape[-1]) / spread.shape[-1])
        length: Array = np.abs(spread @ turned)
        return length


def ring(places: int) -> Ring:
    """Eight drawn starts, none of them near a single place."""
    drawn = Key.of(0).derive("ring", places).numpy().normal(size=(8, places))
    return Ring(softmax(0.5 * drawn), 20, f"ring:{places}")


RING = WorldFamily(name="ring", description="a swarm that is to gather somewhere on a ring", make=ring, size=(12,))
