"""Lessons before a search: a model that is taught to follow a task's texts, and the reflecting roles to write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hocket import tasks
from hocket.core.discovery import hyphenated
from hocket.core.errors import ConfigurationError
from hocket.stages import Task
from hocket.tasks.lessons import LessonTask, Reflecting, lessons_of
from hocket.train.config import configure
from hocket.train.lessons import OF_BOTH, SETTING
from hocket.train.models import model_folder
from hocket.train.settings import Config
from hocket.train.trainer import Trainer, resumed


def lessons_for(task: Task, searcher: str) -> LessonTask:
    """The lessons of a task in what a searcher asks, where it has some, else its own.

    Raises:
        ConfigurationError: when it has none.
    """
    lessons = _of_searcher(task, searcher)
    named = task.name if lessons is None else lessons.task
    return LessonTask(task if named == task.name else tasks.find(named), named)


def lesson_steps(task: Task, model: str, searcher: str, steps: int | None) -> int:
    """How many supervised steps come before a search.

    Unless they are asked for, the shipped nano model alone has lessons, on a task that teaches what the searcher asks.

    Raises:
        ConfigurationError: when the task has none to give, or the model is nothing that learns.
    """
    lessons = lessons_of(task)
    if steps and lessons is None:
        raise ConfigurationError(f"lessons = {steps}: task {task.name} has no lessons; drop the setting")
    if steps and (model.startswith(("http://", "https://")) or ".py:" in model):
        raise ConfigurationError(
            f"lessons = {steps}: {model} cannot be trained; drop the setting, or name a model's folder"
        )
    if steps is not None or lessons is None or model != Config.model or _of_searcher(task, searcher) is None:
        return steps or 0
    return lessons_for(task, searcher).lessons.steps


def suited(task: Task, searcher: str) -> Mapping[str, Any]:
    """The settings of a searcher that suit a reflecting model with the task's lessons."""
    lessons = _of_searcher(task, searcher)
    return {} if lessons is None else lessons.settings


def _of_searcher(task: Task, searcher: str) -> Reflecting | None:
    """What a task teaches for a searcher; None where it has no such lessons."""
    lessons = lessons_of(task)
    return None if lessons is None else lessons.searchers.get(hyphenated(searcher))


def taught(
    lessons: LessonTask,
    model: str,
    steps: int,
    pairs: Sequence[tuple[str, Any]],
    folder: Path,
    remark: Callable[[str], None],
    *,
    trust: bool = False,
) -> str:
    """The folder of the model after so many steps of lessons: a run in `folder`, which is gone on with.

    Args:
        pairs: settings of the search; those of models and machine go for the lessons too.
    """
    place = folder / SETTING
    if not (place / "summary.json").is_file():
        remark(lessons.remark(steps))
        if (place / "config.yaml").is_file():
            trainer = resumed(place, task=lessons, trust=trust)
        else:
            pairs_kept = [(key, value) for key, value in pairs if key.split(".")[0] in OF_BOTH]
            mine = [("recipe", "sft"), ("steps", steps), ("model", model), ("runs", str(folder)), ("run", SETTING)]
            trainer = Trainer(configure([("task", lessons.name), *pairs_kept, *mine], lessons), task=lessons)
        trainer.run()
    return model_folder(str(place), str(folder))
