"""Runs that go on from lessons of their task: the weights after supervised steps, for claims about what comes next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hocket import tasks
from hocket.lab.toys.pictured_runs import PicturedRun
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.train.aio import run_async
from hocket.train.loop import train_step


def taught(task: str, steps: int, folder: Path, lr: float = 1e-3, **settings: Any) -> str:
    """The folder of a model after `steps` of 16 lessons of a task."""
    shared = {"curriculum.prompts": 16, "update.lr": lr, **settings}
    run = PicturedRun.of(find("sft"), tasks.find(f"lessons:{task}"), **shared).train(steps)
    run.parts.lead.policy.save(folder)
    return str(folder)


def success_by_tokens(
    recipe: Recipe, task: str, model: str, budget: float, n: int, **settings: Any
) -> tuple[PicturedRun, float, float]:
    """A run until it has sampled `budget` tokens: itself, success on `n` unseen scenarios, and tokens of an answer."""
    run = PicturedRun.of(recipe, task, model=model, **settings)
    tokens, step = 0.0, 0
    while tokens < budget:
        step += 1
        tokens += run_async(train_step(run.parts, step)).metrics["tokens/generated"]
    result = run.measured(n)
    return run, result.success, sum(item.length for item in result.trajectories) / n
