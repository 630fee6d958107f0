"""Lessons first: a run whose task teaches beginners becomes a plan of supervised steps and then what was asked for.

So what holds for plans holds here: a run per phase, resumed to the same bits, each with its own page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.components import has_path
from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.credit.each_agent import EachAgent
from hocket.recipe import Recipe
from hocket.stages import Stateful, Task
from hocket.tasks.lessons import ADAPTED, PREFIX, Lessons, LessonTask, lessons_of
from hocket.train.config import Pairs, configure, default_model, is_of_recipe, settled
from hocket.train.examples import replayed
from hocket.train.models import is_shipped, is_shipped_reader
from hocket.train.settings import Config, as_recipe
from hocket.train.suggestions import is_open

SETTING = "lessons"
"""How many supervised steps come first; the task's suggestion unless it is set, 0 for none."""

OF_BOTH = (
    "run",
    "runs",
    "seed",
    "model",
    "threads",
    "precision",
    "device",
    "chat_template",
    "chat",
    "date",
    "lora",
    "tower",
    "memory",
    "checkpoint",
    "track",
)
"""Settings of the plan; all others are those of the requested run."""


def with_lessons(pairs: Pairs, name: str, task: Task) -> Pairs:
    """`pairs` without the setting `lessons`, as a plan that begins with them where there are any.

    Unless they are asked for, only a run of the shipped nano model on a task that is named has lessons: a recipe on the
    task that it is for stays what its claims are about, and one with a model or a workflow of its own, a plan, recorded
    responses and the written-out configuration of an earlier run go without, too. A rollout that branches where tools
    are called (`taught`) has them on its recipe's own task and with its workflow as well, for without calls it is none;
    so has any recipe on a task without whose lessons it earns nothing (`Lessons.needed`).

    Args:
        name: of the task, as `hocket train` takes it. task: itself.

    Raises:
        ConfigurationError: when lessons are asked for that cannot be given.
    """
    settings = {key: value for key, value in pairs if key != SETTING}
    count = next((value for key, value in reversed(list(pairs)) if key == SETTING), None)
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
        raise ConfigurationError(f"lessons = {count!r}: set the number of supervised steps before training, 0 for none")
    left = [(key, value) for key, value in pairs if key != SETTING]
    model = default_model(as_recipe(settings.get("recipe", "grpo")), task)
    lessons = lessons_of(task)
    lessons = lessons if count or (count is None and _usual({"model": model, **settings}, lessons)) else None
    steps = count if count is not None else 0 if lessons is None else lessons.steps
    if not steps:
        return left
    if "plan" in settings:
        raise ConfigurationError(
            f"lessons = {steps}: a plan states its own phases; begin it with "
            f"{{recipe: sft, task: {PREFIX}{name}, steps: {steps}}}"
        )
    if lessons is None:
        raise ConfigurationError(f"lessons = {steps}: task {name} has no lessons; drop the setting")
    return _planned([("model", model), *left] if model != Config.model else left, name, lessons, task, steps)


def given_lessons(name: str, task: Task) -> Mapping[str, Task]:
    """The lessons of a task that is an object, by the name that a plan has for them; none where it has none."""
    return {PREFIX + name: LessonTask(task, name)} if lessons_of(task) is not None else {}


def _usual(settings: Mapping[str, Any], lessons: Lessons | None) -> bool:
    """Whether a run has lessons by default."""
    if settings.get("model", Config.model) != Config.model or {"plan", "workflow", "tools"} & settings.keys():
        return False
    chosen = settings.get("recipe", "grpo")
    if isinstance(chosen, Mapping):
        return False
    recipe = as_recipe(chosen)
    if getattr(recipe.rollout, "taught", False):
        return True
    needed = lessons is not None and lessons.needed
    ordinary = "task" in settings and recipe.workflow is None
    return (ordinary or needed) and not recipe.outputs and replayed(recipe) is None


def _planned(pairs: Pairs, name: str, lessons: Lessons, task: Task, steps: int) -> Pairs:
    """The plan of both."""
    settings = dict(pairs)
    recipe = settings.get("recipe", "grpo")
    common = [(key, value) for key, value in pairs if key.split(".")[0] in OF_BOTH]
    suited = _suited(lessons, as_recipe(recipe), settings)
    length_suited = suited.pop("steps", None)
    after = {
        key: value for key, value in suited.items() if not any(setting.startswith(f"{key}.") for setting in settings)
    }
    after |= {key: value for key, value in pairs if key.split(".")[0] not in (*OF_BOTH, "recipe", "steps")}
    length = settled(configure([("task", name), *pairs], task), task).steps
    if settings.get("steps") is None and length_suited is not None:
        length = length_suited
    first = {"name": SETTING, "recipe": "sft", "steps": steps, "task": PREFIX + name}
    if "update.lr" in settings and not _is_shipped(settings) and not is_shipped_reader(*_model(settings)):
        first["update.lr"] = settings["update.lr"]
    return [*common, ("plan", [first, {"recipe": recipe, "steps": length, **after, "task": name}])]


def _is_shipped(settings: Mapping[str, Any]) -> bool:
    return is_shipped(*_model(settings))


def _model(settings: Mapping[str, Any]) -> tuple[str, str]:
    """The run's model, and the folder of runs that it may be one of."""
    return settings.get("model", Config.model), settings.get("runs", Config.runs)


def _suited(lessons: Lessons, recipe: Recipe, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for training after the lessons, of those that the recipe has and leaves open.

    Rates are the shipped model's. Adapters of another go on at that of their lessons, whole weights at their own for
    their size.
    """
    suggestion = dict(lessons.then(recipe))
    if not _is_shipped(settings):
        suggestion.pop("update.lr", None)
        if any(key.split(".")[0] == "lora" and value is not None for key, value in settings.items()):
            suggestion["update.lr"] = ADAPTED
    if lessons.beginners and Requirement.AGENTS not in recipe.requires:
        suggestion |= {f"roles.{role}.frozen": True for role in lessons.beginners}
        # What both sides of a game earn may sum to nothing.
        if not (recipe.credit.pairs or isinstance(recipe.credit, Stateful)):
            suggestion["credit"] = EachAgent(recipe.credit)
    return {
        key: value
        for key, value in suggestion.items()
        if not is_of_recipe(key) or (has_path(recipe, key) and is_open(recipe, key))
    }
