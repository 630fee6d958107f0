"""Toys of several claims: trust regions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.lab.claims.claim import Finding
from hocket.lab.microscope import inspect
from hocket.lab.toys.control_runs import LONGEST, SEEDS, cart_pole, in_words
from hocket.recipe import Recipe

Array = NDArray[np.float64]


def slope(recipe: Recipe, ratio: float, advantage: float) -> float:
    """d gain / d r of one decision under a recipe's objective, by the microscope; gain is minus the loss.

    A decision of advantage A is its own trajectory of reward A, without whitening and with value 0.
    """
    plain = recipe.but({"credit.whiten": False})
    row = {
        "group": "g",
        "scores": {"reward": advantage},
        "logp": [math.log(ratio) - 1.0],
        "logp_behaviour": [-1.0],
        "value": [0.0],
    }
    found: Mapping[str, Any] = inspect(plain, {"version": 1, "trajectories": [row]})
    return -float(found["gradient"][0][0]) / ratio


def worst(pairs: Sequence[tuple[float, float]]) -> float:
    """The largest difference."""
    return max(abs(left - right) for left, right in pairs)


ADVANTAGES = (-3.0, -1.0, -0.2, 0.2, 1.0, 3.0)


class Process:
    """A random Markov decision process with exact values."""

    def __init__(self, seed: int, states: int = 6, actions: int = 4, discount: float = 0.9) -> None:
        noise = Key.of(seed).derive("process").numpy()
        self.transition: Array = noise.dirichlet(np.full(states, 0.3), size=(states, actions))
        self.reward: Array = noise.uniform(size=(states, actions))
        self.start: Array = np.full(states, 1 / states)
        self.discount = discount
        self.states, self.actions = states, actions

    def solved(self, policy: Array) -> tuple[float, Array, Array]:
        """Return from the start distribution, advantages `[S, A]` and discounted visits `[S]` (they sum to 1)."""
        matrix = np.einsum("sa,sat->st", policy, self.transition)
        system = np.eye(self.states) - self.discount * matrix
        value = np.linalg.solve(system, (policy * self.reward).sum(1))
        quality = self.reward + self.discount * self.transition @ value
        visits = (1 - self.discount) * np.linalg.solve(system.T, self.start)
        return float(self.start @ value), quality - value[:, None], visits

    def best(self) -> float:
        """The return of an optimal policy, by policy iteration."""
        policy = np.full((self.states, self.actions), 1 / self.actions)
        for _ in range(100):
            _, advantage, _ = self.solved(policy)
            policy = np.eye(self.actions)[advantage.argmax(1)]
        return self.solved(policy)[0]


def softened(policy: Array, advantage: Array, t: float) -> Array:
    """pi exp(t A) / Z in every state."""
    raised: Array = policy * np.exp(t * (advantage - advantage.max(1, keepdims=True)))
    whole: Array = raised / raised.sum(1, keepdims=True)
    return whole


def _on_par(name: str) -> Callable[[], Finding]:
    def run() -> Finding:
        ours = [cart_pole(name, seed).score for seed in SEEDS]
        theirs = [cart_pole("ppo", seed).score for seed in SEEDS]
        spread = math.hypot(_error(ours), _error(theirs))
        gap = statistics.mean(ours) - statistics.mean(theirs)
        return Finding(
            gap > -max(2 * spread, 0.05 * LONGEST),
            f"CartPole, 8 batches, {len(SEEDS)} seeds, return of at most {LONGEST}: {in_words(ours)} against PPO's "
            f"{in_words(theirs)}",
        )

    return run


def _error(scores: list[float]) -> float:
    return statistics.stdev(scores) / math.sqrt(len(scores))
