"""Random cooperative Markov games small enough to enumerate, and policies that decide in turn within a step, exact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hocket.core.keys import Key
from hocket.lab.exact.cooperative import joint
from hocket.lab.exact.mdp import Array, softmax

InTurn = Sequence[Array]
"""Of each agent i, `pi_i(a_i | s, a_1..a_{i-1})`: an array `[S, A_1, .., A_i]` that sums to 1 over its last axis."""


class CooperativeGame:
    """S states, agents with `moves` actions each, one reward for all, discount `discount`, an even start.

    Attributes:
        transition: `[S, A_1, .., A_n, S]`. reward: `[S, A_1, .., A_n]`.
    """

    def __init__(self, seed: int, states: int = 3, moves: Sequence[int] = (2, 3), discount: float = 0.8) -> None:
        noise = Key.of(seed).derive("cooperative game").numpy()
        self.states, self.moves, self.discount = states, tuple(moves), discount
        self.transition: Array = noise.dirichlet(np.full(states, 0.5), size=(states, *moves))
        self.reward: Array = noise.uniform(size=(states, *moves))
        self.start: Array = np.full(states, 1 / states)

    def random(self, seed: int, sharp: float = 1.0) -> list[Array]:
        """A random policy that decides in turn."""
        noise = Key.of(seed).derive("policy").numpy()
        shapes = [(self.states, *self.moves[: agent + 1]) for agent in range(len(self.moves))]
        return [softmax(sharp * noise.normal(size=shape)) for shape in shapes]

    def even(self) -> list[Array]:
        """Every action with equal probability."""
        return self.random(0, 0.0)

    def solved(self, policy: InTurn) -> tuple[float, Array, Array]:
        """Return J, values of joint actions Q `[S, A_1, .., A_n]`, and discounted visits `[S]` (they sum to 1)."""
        shares = joint(policy).reshape(self.states, -1)
        move = np.einsum("sa,sat->st", shares, self.transition.reshape(self.states, -1, self.states))
        system = np.eye(self.states) - self.discount * move
        value = np.linalg.solve(system, (shares * self.reward.reshape(self.states, -1)).sum(1))
        visits = (1 - self.discount) * np.linalg.solve(system.T, self.start)
        return float(self.start @ value), self.reward + self.discount * self.transition @ value, visits

    def best(self) -> float:
        """The return of the best joint policy, by value iteration."""
        value = np.zeros(self.states)
        for _ in range(2000):
            quality = self.reward + self.discount * self.transition @ value
            value = quality.reshape(self.states, -1).max(1)
        return float(self.start @ value)


def softened(policy: InTurn, value: Sequence[Array], step: float) -> list[Array]:
    """pi_i exp(step Q_i) / Z of every agent."""
    return [softmax(np.log(np.maximum(shares, 1e-300)) + step * of) for shares, of in zip(policy, value, strict=True)]
