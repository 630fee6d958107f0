"""Short runs of teams in joint worlds, and what chance earns there."""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

import numpy as np

from hocket import tasks
from hocket.core.keys import Key
from hocket.recipes import find
from hocket.tasks.joint import JointTask
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.evaluate import evaluate
from hocket.train.loop import RunContext, train_step
from hocket.types import Decoding

EPISODES = 200
"""Of which a return is the mean."""


@dataclass(frozen=True)
class TeamRun:
    """What a run came to: mean return of an agent in sampled episodes after it, and in each step of training."""

    score: float
    path: tuple[float, ...]


@functools.cache
def trained(recipe: str, task: str, seed: int, steps: int, settings: tuple[tuple[str, Any], ...] = ()) -> TeamRun:
    """A run of the library's recipe with the settings that the task suggests, and others by dotted path over them."""
    world = tasks.find(task)
    config = configure([("recipe", find(recipe)), ("task", task), ("steps", steps), ("seed", seed), *settings], world)
    parts = build_parts(config, world)
    agents = len(world.world.agents) if isinstance(world, JointTask) else 1
    path = [asyncio.run(train_step(parts, step + 1)).metrics["reward/mean"] / agents for step in range(steps)]
    return TeamRun(measured(parts), tuple(path))


def measured(parts: RunContext, episodes: int = EPISODES) -> float:
    """The mean return of an agent in episodes that are sampled, not greedy: a matrix game has no other answer."""
    end = asyncio.run(
        evaluate(
            parts.task,
            _Warm(parts.player),
            parts.rewards,
            n=episodes,
            decoding=Decoding(),
            key=parts.key.derive("check"),
        )
    )
    return end.success


class _Warm:
    """A player that samples where evaluation would take the likeliest."""

    def __init__(self, player: Any) -> None:
        self.player = player

    async def play(self, assignments: Sequence[Any], *, key: Key) -> Any:
        return await self.player.play([replace(assignment, decoding=Decoding()) for assignment in assignments], key=key)


@functools.cache
def by_chance(task: str, episodes: int = 500) -> float:
    """The mean return of an agent when all draw evenly from what is allowed, over the episodes that evaluation sees."""
    world = tasks.find(task)
    assert isinstance(world, JointTask)
    course, rng = world.world.open(episodes), np.random.default_rng(0)
    course.reset(range(episodes), [world.scenario("eval", number).seed for number in range(episodes)])
    alive, earned = np.ones((episodes, len(world.world.agents)), bool), 0.0
    while alive.any():
        moves = [rng.integers(0, seat.actions, episodes) for seat in world.world.seats]
        moved = course.step(moves, alive.sum(1) > 0)
        earned += float(moved.rewards[alive].sum())
        alive &= ~(moved.terminated | moved.truncated)
    return earned / alive.size


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of a few runs, by Student's t."""
    quantile = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}.get(len(values), 2.2)
    half = quantile * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half
