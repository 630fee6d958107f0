"""Runs of samplers on drawn digits, for claims about what they learn."""

from __future__ import annotations

from typing import Any

from hocket import tasks
from hocket.core.keys import Key
from hocket.recipe import Recipe
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.evaluate import evaluate
from hocket.train.loop import RunContext, train_step

UNSEEN = 128


def right(recipe: Recipe, steps: int, seed: int = 0, **settings: Any) -> tuple[float, float]:
    """The shares of `UNSEEN` unseen fours that are right in all digits, before and after so many steps as shipped.

    The judge is the one that no reward knows.
    """
    task = tasks.find("drawn-digits")
    parts = build_parts(
        configure([("task", task.name), ("recipe", recipe), ("seed", seed), *settings.items()], task), task
    )
    before = _measured(parts)
    for step in range(1, steps + 1):
        run_async(train_step(parts, step))
    return before, _measured(parts)


def _measured(parts: RunContext) -> float:
    result = evaluate(parts.task, parts.player, (), n=UNSEEN, decoding=parts.decoding, key=Key.of(0), split="eval")
    return float(run_async(result).success)
