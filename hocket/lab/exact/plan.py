"""Solvers to compare with: planning with the true arrays, and posterior sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hocket.core.keys import Key
from hocket.lab.exact.counts import TransitionCounts
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.solver import EpisodicSolver, Solver, SolverMethod, State


@dataclass(frozen=True)
class ValueIteration(Solver):
    """`V <- max_a r + discount P V`, a sweep a step; the answer is the greedy policy."""

    def init(self, world: TabularMDP, key: Key) -> State:
        return {"value": np.zeros(world.states if world.horizon is None else (world.horizon + 1, world.states))}

    def step(self, world: TabularMDP, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        old = state["value"]
        quality = self._quality(world, old)
        value = quality.max(-1) if world.horizon is None else np.append(quality.max(-1), old[-1:], 0)
        return {"value": value}, {"residual": float(np.abs(value - old).max())}

    def answer(self, world: TabularMDP, state: State) -> Array:
        return world.greedy(self._quality(world, state["value"]))

    def _quality(self, world: TabularMDP, value: Array) -> Array:
        if world.horizon is None:
            return world.backup(value)
        return np.stack([world.backup(after) for after in value[1:]])


@dataclass(frozen=True)
class PosteriorSampling(EpisodicSolver):
    """PSRL (Strens 2000): each episode is played by the best policy of one world drawn from the posterior.

    Attributes:
        prior: of the Dirichlet distribution over next states.
    """

    prior: float = 0.1

    def init(self, world: TabularMDP, key: Key) -> State:
        return {**TransitionCounts.none(world).state, "policy": world.even}

    def step(self, world: TabularMDP, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        counts = TransitionCounts.of(state)
        model = replace(world, transition=counts.drawn(self.prior, key.derive("model")))
        policy = model.best.policy
        episode = world.episode(policy, key.derive("episode"))
        return {**counts.plus(episode).state, "policy": policy}, {"return": float(episode.rewards.sum())}

    def answer(self, world: TabularMDP, state: State) -> Array:
        return state["policy"]


VALUE_ITERATION = SolverMethod(
    name="value-iteration",
    description="plans with the true arrays, a sweep a step: the yardstick",
    solver=ValueIteration(),
    world="chain:8",
    steps=100,
)

PSRL = SolverMethod(
    name="psrl",
    description="plays the best policy of one world drawn from the posterior",
    solver=PosteriorSampling(),
    world="river:6",
    steps=300,
    source="Strens, A Bayesian Framework for Reinforcement Learning, ICML 2000",
)
