"""Two agents with aims of their own on a grid, and a pair of soft best responses as their demonstrator."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, drawn, softmax
from hocket.lab.exact.worlds import WorldFamily

Ints = NDArray[np.int64]

MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
"""Stay, up, down, left, right."""

STARTS, GOALS = ((0, 0), (0, 1)), ((1, 1), (1, 0))
"""Corners, by row and column: both agents cross the grid."""

BUMP = (0.5, 0.25)
"""What each loses where both are in one cell."""


@dataclass(frozen=True)
class JointRows:
    """Moves of both agents: states `[N]`, actions `[N, 2]`, next states `[N]`, and weights that sum to 1, `[N]`."""

    states: Ints
    actions: Ints
    onward: Ints
    weight: Array

    def beside(self, other: JointRows) -> JointRows:
        """Half of the weight each."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        states, actions, onward, weight = (np.concatenate(pair) for pair in pairs)
        return JointRows(states, actions, onward, weight / 2)


@dataclass(frozen=True, eq=False)
class DemonstratedGame:
    """A game of two agents with an expert pair.

    An answer is a policy of each agent `[2, S, A]`; its value is minus the divergence of the expert from it, the mean
    of both agents at the states that the expert visits.

    Attributes:
        onward: `[S, A, A]`, the next state. rewards: `[2, S, A, A]`. start: a state. temperature: of the expert.
    """

    onward: Ints
    rewards: Array
    start: int
    temperature: float
    discount: float
    name: str

    @property
    def optimum(self) -> float:
        return 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an answer."""
        return (2, *self.onward.shape[:2])

    def marginal(self, table: Array, agent: int, other: Array) -> Array:
        """A table `[S, A, A]` averaged over the other agent's policy `[S, A]`, by this agent's action `[S, A]`."""
        averaged: Array = np.einsum("sab,sb->sa" if agent == 0 else "sab,sa->sb", table, other)
        return averaged

    def quality(self, agent: int, other: Array, value: Array) -> Array:
        """`E[r + discount V(s')]` of an agent's actions `[S, A]`."""
        return self.marginal(self.rewards[agent] + self.discount * value[self.onward], agent, other)

    @cached_property
    def expert(self) -> Array:
        """Each agent's softmax of its values against the other's, `[2, S, A]`, which answer each other.

        Raises:
            ConfigurationError: where the two do not settle.
        """
        policies, value = np.full(self.shape, 1 / len(MOVES)), np.zeros(self.shape[:2])
        for number in range(4000):
            before = policies.copy()
            for agent in range(2):
                quality = self.quality(agent, policies[1 - agent], value[agent])
                value[agent] = soft(quality, self.temperature)
                policies[agent] = 0.5 * policies[agent] + 0.5 * softmax(quality / self.temperature)
            if number > 50 and float(np.abs(policies - before).max()) < 1e-12:
                return policies
        raise ConfigurationError(f"world {self.name}: its agents' soft answers to each other do not settle")

    def visits(self, policies: Array) -> Array:
        """The discounted share of each state, `[S]`."""
        move = self._moved(policies)
        system = np.eye(len(move)) - self.discount * move
        share: Array = (1 - self.discount) * np.linalg.solve(system.T, np.eye(len(move))[self.start])
        return share

    def returns(self, policies: Array) -> Array:
        """What each agent earns, `[2]`."""
        paid = np.einsum("isab,sa,sb->is", self.rewards, *policies)
        earned: Array = paid @ self.visits(policies) / (1 - self.discount)
        return earned

    def value(self, answer: Array) -> float:
        gap = (self.expert * (np.log(self.expert) - np.log(np.maximum(answer, 1e-300)))).sum(-1)
        return -float(gap.mean(0) @ self.visits(self.expert))

    def played(self, policies: Array, episodes: int, length: int, key: Key) -> JointRows:
        """The moves of so many episodes, weighted by their discount."""
        luck = key.numpy().random((length, 2, episodes))
        at, rows = np.full(episodes, self.start), []
        for step in range(length):
            acts = np.stack([drawn(policies[agent, at], luck[step, agent]) for agent in range(2)], 1)
            to = self.onward[at, acts[:, 0], acts[:, 1]]
            rows.append((at, acts, to, np.full(episodes, self.discount**step)))
            at = to
        states, actions, onward, weight = (np.concatenate(part) for part in zip(*rows, strict=True))
        return JointRows(states, actions, onward, weight / weight.sum())

    def _moved(self, policies: Array) -> Array:
        move = np.zeros((len(self.onward), len(self.onward)))
        pair = np.einsum("sa,sb->sab", *policies)
        np.add.at(move, (np.arange(len(move))[:, None, None], self.onward), pair)
        return move


def soft(quality: Array, temperature: float) -> Array:
    """`temperature * log sum exp(quality / temperature)` over the last axis."""
    top = quality.max(-1)
    value: Array = top + temperature * np.log(np.exp((quality - top[..., None]) / temperature).sum(-1))
    return value


def crossing(side: int) -> DemonstratedGame:
    """A square grid that both agents cross from the top to the far corner below; who stands at its goal earns 1 a step.

    Raises:
        ConfigurationError: for a side of less than 2.
    """
    if side < 2:
        raise ConfigurationError(f"world demonstrated:{side}: its side is at least 2")
    cells = list(itertools.product(range(side), repeat=2))
    at = [[(row * (side - 1), column * (side - 1)) for row, column in corners] for corners in (STARTS, GOALS)]
    moved = np.array(
        [[cells.index((_within(r + down, side), _within(c + right, side))) for down, right in MOVES] for r, c in cells]
    )
    count = len(cells)
    first, second = np.divmod(np.arange(count**2), count)
    onward = moved[first][:, :, None] * count + moved[second][:, None]
    places = np.divmod(onward, count)
    bumped = places[0] == places[1]
    paid = [(places[agent] == cells.index(at[1][agent])) - BUMP[agent] * bumped for agent in range(2)]
    start = cells.index(at[0][0]) * count + cells.index(at[0][1])
    return DemonstratedGame(onward, np.stack(paid), start, 0.3, 0.9, f"demonstrated:{side}")


def _within(place: int, side: int) -> int:
    return min(max(place, 0), side - 1)


DEMONSTRATED = WorldFamily(
    name="demonstrated",
    description="a grid that two agents cross, with demonstrations, for mamql",
    make=crossing,
    size=(3,),
)
