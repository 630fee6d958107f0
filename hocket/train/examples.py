"""Checks before sampling that the task provides what a recipe reads from scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example, held_by
from hocket.recipe import Recipe
from hocket.stages import Rollout, Task, walk
from hocket.train.settings import Config, responses_of_a_step


def replayed(recipe: Recipe) -> Example | None:
    """The recorded responses that a recipe reads from scenarios; None if it samples."""
    return next((stage.replays for stage in walk(recipe.rollout) if isinstance(stage, Rollout) and stage.replays), None)


def check_examples(recipe: Recipe, task: Task) -> None:
    """Refuses a recipe whose data the task lacks, such as pairs or hints.

    Raises:
        ConfigurationError: naming what the recipe reads, what the task has, and the remedy.
    """
    check_metadata(recipe, task)
    wanted = replayed(recipe)
    if wanted is None:
        return
    example: Example | None = getattr(task, "example", None)
    if example is Example.PROMPT and wanted is Example.DEMONSTRATION and hasattr(task, "examples"):
        bare = next((where for where, scenario in task.examples() if Example.PROMPT in held_by(scenario)), None)
        if bare is None:
            return
        raise ConfigurationError(
            f"{bare}: neither a completion nor an answer, one of which recipe {recipe.name} learns from; add it"
        )
    if task.kind == "control":
        raise ConfigurationError(
            f"recipe {recipe.name} learns from {wanted.value} in words, and task {task.name} is control; use ppo, a2c "
            "or grpo, for several agents ippo or mappo (`hocket recipes multi-agent` lists others)"
        )
    held = held_by(task.scenario("train", 0)) if example is None else {example}
    if wanted not in held:
        has = min(held, key=list(Example).index)
        raise ConfigurationError(
            f"recipe {recipe.name} learns from {wanted.value}, and task {task.name} holds {has.value}; give a task "
            f"with {wanted.columns}, or choose {has.recipe}"
        )


def check_metadata(recipe: Recipe, task: Task) -> None:
    """Refuses a recipe with a stage that reads metadata which no scenario has.

    Examines all scenarios of loaded data, else the first one.

    Raises:
        ConfigurationError: naming the stage, what it reads, and the existing metadata.
    """
    # Parts come after the stages that contain them, so the last stage that names a column reads it.
    wanting = {name: stage for stage in recipe.stages for name in sorted(stage.reads_metadata)}
    if not wanting:
        return
    listed: Any = getattr(task, "examples", None)
    scenarios = [item for _, item in listed()] if listed is not None else [task.scenario("train", 0)]
    columns = {name for scenario in scenarios for name, value in scenario.metadata.items() if value is not None}
    if any(scenario.answer is not None for scenario in scenarios):
        columns |= {"answer", "demonstration"}  # An answer counts as a demonstration.
    for name, stage in wanting.items():
        if name not in columns:
            has = f"have {', '.join(sorted(columns))}" if columns else "have no such columns"
            raise ConfigurationError(
                f"recipe {recipe.name}: {type(stage).__name__} reads {name!r} of scenarios, and those of task "
                f"{task.name} {has}; give data with that column, or name another"
            )


def unmet_sizes(config: Config, player: Any) -> Iterator[str]:
    """A sentence for each setting that a step of this size, or this model, cannot satisfy."""
    context = getattr(player, "context_length", None)
    if context is None:
        return
    for recipe, _ in config.phases:
        parts = getattr(recipe.update, "minibatches", None) or 1
        responses = responses_of_a_step(recipe)
        if parts > responses and replayed(recipe) is None:
            yield f"update.minibatches = {parts}, but a step has {responses} responses: there are no more mini-batches"
    if config.decoding.max_tokens >= context:
        yield (
            f"decoding.max_tokens = {config.decoding.max_tokens:,}, but the model's context holds {context:,} tokens, "
            "the prompt among them: answers end there, and count as cut off"
        )
