"""Worlds and helpers for the tests of control."""

import asyncio
from dataclasses import dataclass, field

import numpy as np

from hocket.core.keys import Key
from hocket.policies.control import ControlPolicy
from hocket.rollout.vector import VectorPlayer
from hocket.types import Assignment, Decoding, Scenario


@dataclass
class Shape:
    observations: int
    actions: int
    discrete: bool


class Walk:
    """A point on a line: action 0 or 1 (or the sign of a vector's sum) moves it; the episode ends at ±4.

    `raises` maps seeds to the step that raises (0: reset), `poison` to the step whose observation is not a number.
    """

    def __init__(self, world: "Line") -> None:
        self.world = world
        world.opened += 1

    def reset(self, seed: int) -> np.ndarray:
        if self.world.raises.get(seed) == 0:
            raise RuntimeError("no such world")
        self.seed, self.time = seed, 0
        self.at = float(np.random.Generator(np.random.Philox(seed)).uniform(-1, 1))
        return self.seen()

    def seen(self) -> np.ndarray:
        return np.array([self.at, self.time / 10, 1.0], np.float32)

    def step(self, action):
        self.time += 1
        if self.world.raises.get(self.seed) == self.time:
            raise RuntimeError("the floor gave way")
        self.at += 0.5 if np.sum(action) > 0.5 else -0.5
        if self.world.poison.get(self.seed) == self.time:
            self.at = float("nan")
        return self.seen(), -abs(self.at), abs(self.at) >= 4, self.time >= self.world.limit

    def close(self) -> None:
        self.world.closed += 1


@dataclass
class Line:
    """Makes walks, and is the shape of their controllers."""

    actions: int = 2
    discrete: bool = True
    limit: int = 12
    raises: dict[int, int] = field(default_factory=dict)
    poison: dict[int, int] = field(default_factory=dict)
    observations: int = 3
    opened: int = 0
    closed: int = 0

    def make(self) -> Walk:
        return Walk(self)


def asked(seed: int, samples: int = 1, **settings) -> Assignment:
    return Assignment(Scenario(id=f"line/{seed}", seed=seed), samples, **settings)


GREEDY = Decoding(temperature=0.0)


def controller(world, **settings) -> ControlPolicy:
    """A controller that is far from uniform, so that mistakes in log-probs show."""
    policy = ControlPolicy(world, key=Key.of(3), **settings)
    for weight in policy.module.actor.weights:
        weight.data.mul_(1.5)
    policy.module.actor.weights[-1].data.mul_(50)
    return policy


def play(world, assignments, policy=None, key=None, **settings):
    player = VectorPlayer(world, policy or controller(world), **settings)
    return asyncio.run(player.play(assignments, key=key or Key.of(11)))
