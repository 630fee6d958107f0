"""Runs of recipes that learn from a store, for claims about what they learn."""

from __future__ import annotations

from typing import Any

from hocket import tasks
from hocket.core.keys import Key
from hocket.recipe import Recipe
from hocket.stages import Task
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.evaluate import evaluate
from hocket.train.loop import RunContext, train_step

EPISODES = 20


def returns(recipe: Recipe, task: str, seed: int, steps: int, **settings: Any) -> tuple[float, float]:
    """Mean greedy returns over `EPISODES` unseen episodes before and after so many steps of `hocket train`."""
    return learnt(recipe, tasks.find(task), seed, steps, **settings)


def learnt(recipe: Recipe, world: Task, seed: int, steps: int, **settings: Any) -> tuple[float, float]:
    """`returns` on a task that need not have a name."""
    pairs = [("task", world.name), ("recipe", recipe), ("seed", seed), *settings.items()]
    parts = build_parts(configure(pairs, world), world)
    before = _measured(parts)
    for step in range(1, steps + 1):
        run_async(train_step(parts, step))
    return before, _measured(parts)


def _measured(parts: RunContext) -> float:
    result = evaluate(parts.task, parts.player, (), n=EPISODES, decoding=parts.decoding, key=Key.of(0), split="eval")
    return float(run_async(result).success)
