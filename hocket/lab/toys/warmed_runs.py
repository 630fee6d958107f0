"""Runs that go on from lessons of their task: the weights after supervised steps, for claims about what comes next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hocket import tasks
from hocket.lab.toys.pictured_runs import PicturedRun
from hocket.recipes import find


def taught(task: str, steps: int, folder: Path, lr: float = 1e-3, **settings: Any) -> str:
    """The folder of a model after `steps` of 16 lessons of a task."""
    shared = {"curriculum.prompts": 16, "update.lr": lr, **settings}
    run = PicturedRun.of(find("sft"), tasks.find(f"lessons:{task}"), **shared).train(steps)
    run.parts.lead.policy.save(folder)
    return str(folder)
