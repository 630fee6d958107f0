"""What recipes take from scenarios, and whether the task has it: looked at before anything is sampled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example, held_by
from hocket.recipe import Recipe
from hocket.stages import Rollout, Task, walk
from hocket.train.settings import Config, responses_of_a_step


def replayed(recipe: Recipe) -> Example | None:
    """Which responses a recipe takes from the scenarios; None where it samples."""
    return next((stage.replays for stage in walk(recipe.rollout) if isinstance(stage, Rollout) and stage.replays), None)


def check_examples(recipe: Recipe, task: Task) -> None:
    """Refuses a recipe of pairs where the task holds none, or of hints where no scenario tells any, and the like.

    Raises:
        ConfigurationError: naming what either has, and the mend.
    """
    check_metadata(recipe, task)
    wanted = replayed(recipe)
    if wanted is None:
        return
    own: Example | None = getattr(task, "example", None)
    if own is Example.PROMPT and wanted is Example.DEMONSTRATION and hasattr(task, "examples"):
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
    held = held_by(task.scenario("train", 0)) if own is None else {own}
    if wanted not in held:
        has = min(held, key=list(Example).index)
        raise ConfigurationError(
            f"recipe {recipe.name} learns from {wanted.value}, and task {task.name} holds {has.value}; give a task "
            f"with {wanted.columns}, or choose {has.recipe}"
        )


def check_metadata(recipe: Recipe, task: Task) -> None:
    """Refuses a recipe with a stage that reads what no scenario tells.

    Looked at are all scenarios of data that were read, else the first one.

    Raises:
        ConfigurationError: naming the stage, what it reads, and what there is.
    """
    # A part comes after what it is a part of: the last to name something is who reads it.
    wanting = {name: stage for stage in recipe.stages for name in sorted(stage.reads_metadata)}
    if not wanting:
        return
    listed: Any = getattr(task, "examples", None)
    scenarios = [one for _, one in listed()] if listed is not None else [task.scenario("train", 0)]
    told = {name for scenario in scenarios for name, value in scenario.metadata.items() if value is not None}
    if any(scenario.answer is not None for scenario in scenarios):
        told |= {"answer", "demonstration"}  # An answer shows itself.
    for name, stage in wanting.items():
        if name not in told:
            has = f"tell {', '.join(sorted(told))}" if told else "tell nothing of the kind"
            raise ConfigurationError(
                f"recipe {recipe.name}: {type(stage).__name__} reads {name!r} of scenarios, and those of task "
                f"{task.name} {has}; give data with that column, or name another"
            )


def unmet_sizes(config: Config, player: Any) -> Iterator[str]:
    """What was set that a step of this model and size cannot have, in a sentence each."""
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
