"""Sepsis as the package `icu-sepsis` has it: a decision process counted from MIMIC-III, with the clinicians' policy."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.worlds import WorldFamily

ENDLESS = 1 - 1e-6
"""A discount that leaves the returns of episodes that end as they are, but for some 1e-5."""


@dataclass(frozen=True, eq=False)
class Treatment(TabularMDP):
    """A decision process that clinicians have acted in.

    Attributes:
        behaviour: what they do, `[S, A]`. paid: what it pays to come to a state, `[S]`. cost: what a decision costs in
            safety, `[S, A]`. over: states in which nothing happens any more, `[S]` bool.
    """

    behaviour: Array = None  # type: ignore[assignment]
    paid: Array = None  # type: ignore[assignment]
    cost: Array = None  # type: ignore[assignment]
    over: NDArray[np.bool_] = None  # type: ignore[assignment]

    def sums(self, policy: Array, *numbers: Array) -> list[float]:
        """The expected sums over an episode of numbers of decisions, `[S, A]` each, under a policy."""
        visits = self.visits(policy) / (1 - self.discount)
        visits[self.over] = 0.0
        return [float((visits * number).sum()) for number in numbers]

    def recorded(self, episodes: int, key: Key, longest: int = 200) -> Array:
        """The decisions of so many episodes of the clinicians: rows of state, action and next state, `[K, 3]`."""
        rng, over = key.numpy(), self.over
        acts, moves = self.behaviour.cumsum(-1), self.transition.cumsum(-1)
        state = (rng.random(episodes)[:, None] * self.start.sum() >= self.start.cumsum()).sum(-1)
        rows: list[Array] = []
        for _ in range(longest):
            state = state[~over[state]]
            if not len(state):
                break
            action = (rng.random(len(state))[:, None] * acts[state, -1:] >= acts[state]).sum(-1)
            draws, after = rng.random(len(state)), np.empty_like(state)
            for start in range(0, len(state), 2000):  # A row of transitions has as many numbers as there are states.
                part = slice(start, start + 2000)
                edges = moves[state[part], action[part]]
                after[part] = (draws[part, None] * edges[:, -1:] >= edges).sum(-1)
            rows.append(np.stack([state, action, after], 1))
            state = after
        return np.concatenate(rows)


def sepsis(levels: int = 5) -> Treatment:
    """716 states, 25 actions: five doses of fluids by five of vasopressors. Survival pays 1; a SOFA score is a cost.

    Raises:
        ConfigurationError: without the package, or for other than 5 levels, which the data have.
    """
    if levels != 5:
        raise ConfigurationError(f"sepsis:{levels}: the data have 5 doses; write sepsis")
    package = importlib.util.find_spec("icu_sepsis")
    if package is None or not package.submodule_search_locations:
        raise ConfigurationError("the world sepsis needs icu-sepsis: pip install --no-deps icu-sepsis")
    file = Path(package.submodule_search_locations[0]) / "envs" / "assets" / "dynamics.npz"
    with np.load(file) as held:
        transition, paid, start = held["tx_mat"], held["r_mat"], held["d_0"]
        behaviour, score = held["expert_policy"], held["sofa_scores"]
    reward, arrived = (transition * paid).sum(-1), paid.max((0, 1))
    over = transition[:, 0, -1] == 1.0  # Death, survival and what follows lead to the last state.
    even = np.full(behaviour.shape, 1 / behaviour.shape[1])
    acted = np.where(behaviour.sum(-1, keepdims=True) > 0, behaviour, even)
    return Treatment(
        transition / transition.sum(-1, keepdims=True),
        reward,
        start / start.sum(),
        None,
        ENDLESS,
        "sepsis",
        behaviour=acted / acted.sum(-1, keepdims=True),
        paid=arrived,
        cost=np.repeat(score[:, None] / 24, reward.shape[1], 1),
        over=over,
    )


SEPSIS = WorldFamily(
    name="sepsis",
    description="treatment of sepsis, counted from MIMIC-III (package icu-sepsis), for ogsrl",
    make=sepsis,
    size=(5,),
)
