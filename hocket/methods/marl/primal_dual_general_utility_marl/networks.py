"""Agents along a line, each with a state of its own that only its neighbours touch, and utilities of where they are.

n agents, S local states, A local actions. A policy is `[n, S, A]`: each agent reads its own state alone. A utility is
any smooth function of an agent's occupancy, `[S, A]`: the discounted share of time in which it does a in s.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, TabularMDP, drawn
from hocket.lab.exact.worlds import WorldFamily

LARGEST = 4_000_000
"""Entries of joint transitions that are still enumerated."""


class Utility(Protocol):
    """A concave function of an agent's occupancy `[.., S, A]`."""

    def value(self, occupancy: Array, /) -> Array:
        """`[..]`."""
        ...

    def slope(self, occupancy: Array, /) -> Array:
        """Its gradient, `[.., S, A]`."""
        ...


@dataclass(frozen=True)
class Entropy:
    """The entropy of where an agent is, in nats."""

    def value(self, occupancy: Array) -> Array:
        shares = np.maximum(occupancy.sum(-1), 1e-12)
        found: Array = -(shares * np.log(shares)).sum(-1)
        return found

    def slope(self, occupancy: Array) -> Array:
        shares = np.maximum(occupancy.sum(-1, keepdims=True), 1e-12)
        return np.broadcast_to(-np.log(shares) - 1, occupancy.shape)


@dataclass(frozen=True)
class Budget:
    """What is left of `limit` when the action `dear` was taken as often as it was; below 0 where it was too often."""

    limit: float
    dear: int = 1

    def value(self, occupancy: Array) -> Array:
        left: Array = self.limit - occupancy[..., self.dear].sum(-1)
        return left

    def slope(self, occupancy: Array) -> Array:
        found = np.zeros_like(occupancy)
        found[..., self.dear] = -1
        return found


@dataclass(frozen=True)
class Trails:
    """Episodes drawn at once: states `[E, T + 1, n]` and actions `[E, T, n]`."""

    states: NDArray[np.int64]
    actions: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Network:
    """The world; all agents begin in local state 0.

    Attributes:
        local: `[S + 1, S, S + 1, A, S]`, the next own state by the left neighbour's state, one's own, the right one's
            and one's action; S stands for no neighbour. agents: how many.
        objective: each agent's utility. constraint: one that is to be at least 0 for each. price: of a unit below 0 in
            what `value` says, above every multiplier of the constrained optimum.

    Raises:
        ConfigurationError: for shapes that do not fit, rows that do not sum to 1, or too many joint states.
    """

    local: Array
    agents: int
    objective: Utility
    constraint: Utility
    discount: float = 0.9
    price: float = 5.0
    name: str = "network"

    def __post_init__(self) -> None:
        own, actions = (self.local.shape[1], self.local.shape[3]) if self.local.ndim == 5 else (0, 0)
        if not own or self.local.shape != (own + 1, own, own + 1, actions, own):
            raise ConfigurationError(f"{self.name}: local has shape {self.local.shape}, not [S + 1, S, S + 1, A, S]")
        if (self.local < 0).any() or not np.allclose(self.local.sum(-1), 1):
            raise ConfigurationError(f"{self.name}: the rows of local must be probabilities that sum to 1")
        if not 0 < self.discount < 1 or self.agents < 1:
            raise ConfigurationError(f"{self.name}: it takes agents, and a discount above 0 and below 1")
        if (own * own * actions) ** self.agents > LARGEST:
            raise ConfigurationError(f"{self.name}: its joint transitions have more than {LARGEST:,} entries")

    @property
    def states(self) -> int:
        return int(self.local.shape[1])

    @property
    def actions(self) -> int:
        return int(self.local.shape[3])

    # ------------------------------------------------------------ exact, by all joint states

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """`[S ** n, n]`, the local states of every joint state."""
        return np.array(list(itertools.product(range(self.states), repeat=self.agents)))

    @cached_property
    def moves(self) -> NDArray[np.int64]:
        """`[A ** n, n]`, the local actions of every joint action."""
        return np.array(list(itertools.product(range(self.actions), repeat=self.agents)))

    @cached_property
    def joint(self) -> TabularMDP:
        """The process of all agents together, without reward."""
        beside = np.pad(self.places, ((0, 0), (1, 1)), constant_values=self.states)
        whole = np.ones((len(self.places), len(self.moves), 1))
        for agent in range(self.agents):
            left, own, right = (beside[:, None, agent + place] for place in range(3))
            onward = self.local[left, own, right, self.moves[None, :, agent]]
            whole = (whole[..., None] * onward[:, :, None]).reshape(*whole.shape[:2], -1)
        start = np.eye(len(self.places))[0]
        return TabularMDP(whole, np.zeros(whole.shape[:2]), start, discount=self.discount, name=self.name)

    def together(self, policy: Array) -> Array:
        """`[S ** n, A ** n]`, what all do, from local policies."""
        whole: Array = np.ones((len(self.places), len(self.moves)))
        for agent in range(self.agents):
            whole = whole * policy[agent][self.places[:, agent]][:, self.moves[:, agent]]
        return whole

    def shares(self, visits: Array) -> Array:
        """`[n, S, A]`, each agent's occupancy, from that of all, `[S ** n, A ** n]`."""
        found = np.zeros((self.agents, self.states, self.actions))
        for agent in range(self.agents):
            np.add.at(found[agent], (self.places[:, agent][:, None], self.moves[None, :, agent]), visits)
        return found

    def occupancy(self, policy: Array) -> Array:
        """`[n, S, A]`, exactly."""
        return self.shares(self.joint.visits(self.together(policy)))

    def earning(self, rewards: Array) -> TabularMDP:
        """The joint process where each agent earns `rewards`, `[n, S, A]`, by its own state and action."""
        told = (rewards[agent][self.places[:, agent]][:, self.moves[:, agent]] for agent in range(self.agents))
        return replace(self.joint, reward=np.sum(list(told), axis=0))

    def value(self, policy: Array) -> float:
        """The utilities' sum, less the price of what constraints lack."""
        return self.worth(self.occupancy(policy))

    def worth(self, occupancy: Array) -> float:
        """The same of occupancies, `[n, S, A]`."""
        lacking = np.maximum(-self.constraint.value(occupancy), 0)
        return float(self.objective.value(occupancy).sum() - self.price * lacking.sum())

    @cached_property
    def optimum(self) -> float:
        """An upper bound of every value, by duality: that of agents who see all and decide as one, to about .01.

        For multipliers up to the price, no value is above `max f + multipliers g` over all occupancies; that is found
        by Frank-Wolfe steps, whose own gap is added.
        """
        multipliers, visits = np.ones(self.agents), self.joint.visits(self.joint.even)
        mean, rounds = np.zeros(self.agents), 200
        for turn in range(rounds):
            target, _ = self._vertex(self.shares(visits), multipliers)
            visits = visits + 2 / (turn + 4) * (target - visits)
            left = self.constraint.value(self.shares(visits))
            multipliers = np.clip(multipliers - 2 / np.sqrt(turn + 1) * left, 0, self.price)
            mean += (turn >= rounds // 2) * multipliers / (rounds - rounds // 2)
        bound = np.inf
        for turn in range(200):
            shares = self.shares(visits)
            target, gap = self._vertex(shares, mean)
            worth = (self.objective.value(shares) + mean * self.constraint.value(shares)).sum()
            bound = min(bound, float(worth + gap))
            visits = visits + 2 / (turn + 4) * (target - visits)
        return bound

    def _vertex(self, shares: Array, multipliers: Array) -> tuple[Array, float]:
        """The joint occupancy that is best for the slopes at `shares`, and by how much."""
        slopes = shadow(self, shares, multipliers)
        process = self.earning(slopes)
        target = process.visits(process.best.policy)
        return target, float(((self.shares(target) - shares) * slopes).sum())

    # ------------------------------------------------------------ drawn

    def trails(self, policy: Array, episodes: int, steps: int, key: Key) -> Trails:
        """Episodes from local policies."""
        draw = key.numpy()
        states = np.zeros((episodes, steps + 1, self.agents), np.int64)
        actions = np.zeros((episodes, steps, self.agents), np.int64)
        each = np.arange(self.agents)
        for step in range(steps):
            at = states[:, step]
            actions[:, step] = drawn(policy[each, at], draw.random(at.shape))
            beside = np.pad(at, ((0, 0), (1, 1)), constant_values=self.states)
            onward = self.local[beside[:, :-2], at, beside[:, 2:], actions[:, step]]
            states[:, step + 1] = drawn(onward, draw.random(at.shape))
        return Trails(states, actions)


def shadow(world: Network, occupancy: Array, multipliers: Array) -> Array:
    """`[n, S, A]`, `df_i/dlambda_i + multiplier_i dg_i/dlambda_i`: the reward whose policy gradient is that of both."""
    found: Array = world.objective.slope(occupancy) + multipliers[:, None, None] * world.constraint.slope(occupancy)
    return found


def patrol(guards: int) -> Network:
    """Guards with three posts each that lie in a ring; to be at all of them evenly is worth most, and walking is dear.

    A step to the next post succeeds nine times of ten, and three times of ten where a neighbour stands at the post of
    that number. At most a tenth of the time may be spent walking.
    """
    posts = 3
    local = np.zeros((posts + 1, posts, posts + 1, 2, posts))
    for left, own, right in itertools.product(range(posts + 1), range(posts), range(posts + 1)):
        onward = (own + 1) % posts
        passing = 0.3 if onward in (left, right) else 0.9
        local[left, own, right, 0, own] = 1
        local[left, own, right, 1, [own, onward]] = 1 - passing, passing
    return Network(local, guards, Entropy(), Budget(0.1), name=f"patrol:{guards}")


PATROL = WorldFamily(name="patrol", description="guards in a row with posts to walk to", make=patrol, size=(4,))
