"""The shipped model after lessons on a task, and what further training makes of it: for claims about learning."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from hocket import tasks
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.lab.claims.shipped_check import configured
from hocket.recipe import Recipe
from hocket.stages import Split
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Trajectory

_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
"""Weights that lessons made; gone with the process."""


@dataclass
class Pupil:
    """A run of some steps without a folder.

    Attributes:
        parts: as they are now. results: of every step so far.
    """

    parts: RunContext
    results: list[StepResult] = field(default_factory=list)

    def run(self, steps: int) -> Pupil:
        """`steps` more; returns itself."""
        for _ in range(steps):
            self.results.append(run_async(train_step(self.parts, len(self.results) + 1)))
        return self

    def mean(self, metric: str, last: int) -> float:
        """The mean of a metric over the last so many steps."""
        return fmean(float(row.metrics[metric]) for row in self.results[-last:])

    def exam(self, samples: int = 2, split: Split = "eval") -> list[Trajectory]:
        """Attempts at the scenarios of a split, sampled as in training and not learnt from."""
        size = self.parts.task.size(split) or 0
        assignments = [
            Assignment(self.parts.task.scenario(split, number), samples, self.parts.decoding) for number in range(size)
        ]
        return run_async(self.parts.player.play(assignments, key=Key.of(0).derive("exam", split)))

    def success(self, samples: int = 2, split: Split = "eval") -> float:
        """The share of these that succeed."""
        return fmean(self.parts.task.success(trajectory) for trajectory in self.exam(samples, split))


@cache
def lessons(task: str, steps: int = 60, lr: float = 0.003) -> str:
    """A folder with the shipped model after so many steps of `sft` on a task's demonstrations."""
    folder = tempfile.TemporaryDirectory()
    _FOLDERS.append(folder)
    pupil = begin("sft", task, {"update.lr": lr}).run(steps)
    pupil.parts.lead.policy.save(Path(folder.name))
    return folder.name


def begin(recipe: Recipe | str, task: str, settings: Mapping[str, Any] | None = None) -> Pupil:
    """A run configured as `hocket train` does."""
    lesson_task = tasks.find(task)
    return Pupil(build_parts(configured(recipe, task, lesson_task, settings or {}), lesson_task))


def after_lessons(
    recipe: Recipe | str,
    task: str,
    taught: str,
    settings: Mapping[str, Any] | None = None,
    **how: Any,
) -> Pupil:
    """A run on `task` from the weights that `lessons(taught, **how)` made."""
    return begin(recipe, task, {**(settings or {}), "model": lessons(taught, **how)})
