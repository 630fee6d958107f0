"""Rows of data before the first step: what of them cannot be shown to the model, and what is not looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from hocket.agents.workflows.player import TextPlayer
from hocket.core.errors import ConfigurationError
from hocket.core.examples import responses_of
from hocket.core.keys import Key
from hocket.curriculum.pool import PoolMembers
from hocket.curriculum.pool import left_out as pooled
from hocket.curriculum.scenario_worth import Even, Weighted
from hocket.rewards.functions import GIVEN, FunctionReward
from hocket.stages import Curriculum, Split, Task, walk
from hocket.train.examples import replayed
from hocket.train.ledger import Ledger
from hocket.train.loop import RunContext
from hocket.train.settings import Config
from hocket.types import Scenario

TOKENS_PER_MESSAGE = 64
"""More than a chat template writes around a message."""


def left_out(config: Config, task: Task) -> list[str]:
    """In sentences, which of a task's scenarios a run does not look at, or asks too seldom for what its recipe does."""
    scenarios = [scenario for recipe, _ in config.phases for scenario in pooled(recipe.curriculum, task)]
    for recipe, steps in config.phases:
        scenarios += _unweighted(recipe.curriculum, task, steps)
    unseen, n = task.size("eval"), config.evaluation.n
    if unseen is not None and n < unseen:
        scenarios.append(
            f"evaluation measures the first {n} of the {unseen} unseen scenarios of task {task.name}; "
            f"evaluation.n = {unseen} measures all"
        )
    return list(dict.fromkeys(scenarios))


def _unweighted(curriculum: Curriculum, task: Task, steps: int) -> list[str]:
    """In a sentence, that a run is over before scenarios are drawn by what they are worth."""
    scenarios = []
    for stage in walk(curriculum):
        if isinstance(stage, Weighted) and not isinstance(stage.value, Even):
            size, total = PoolMembers(task, stage.pool, Ledger(), Key.of(0)).size, steps * stage.prompts
            if total <= size:
                scenarios.append(
                    f"the curriculum uses the history of scenarios once it has drawn each of the {size}, and "
                    f"{steps} steps draw {total}; try curriculum.pool = {max(total // 4, 1)}"
                )
    return scenarios


LOOKED, LOOKED_BYTES, OWN = 4096, 2**26, 256
"""How many rows, and how much text, are shown to the chat template before the first step; and of a user's own task."""


def check_rows(config: Config, parts: RunContext) -> list[str]:
    """Refuses data of which a row cannot be shown to the model: before anything is sampled, not when its turn comes.

    Looked at are the rows of files, and some scenarios of a user's own finite task, in training and in evaluation.
    Where there are more than `LOOKED` rows these are spread evenly, and looked at besides is what has another form than
    those before, or may be too long. Returns in sentences what was not looked at, and which columns that rewards ask
    for are empty.

    Raises:
        ConfigurationError: naming the row.
    """
    player, task = parts.player, parts.task
    if not isinstance(player, TextPlayer):
        return []
    recorded = any(replayed(recipe) is not None for recipe, _ in config.phases)
    recorded |= any("demonstration" in stage.reads_metadata for recipe, _ in config.phases for stage in recipe.stages)
    known, limit = _rows_of(parts, player), player.fit.limit(player.context_length)
    total = sum(1 for _ in _every_row(task))
    kinds, looked, size, stride = set[Any](), 0, 0, -(-total // LOOKED) if total else 1
    for place, (where, made) in enumerate(_every_row(task)):
        scenario = made()
        responses = responses_of(scenario) if recorded else []
        most = _most_tokens(scenario, responses)
        form = _kind([scenario.messages, scenario.metadata.get("tools"), responses])
        suspect = form not in kinds or (limit is not None and most > limit)
        if (place % stride and not suspect) or size > LOOKED_BYTES:
            continue
        kinds.add(form)
        looked, size = looked + 1, size + most
        try:
            largest = player.check(scenario, recorded=recorded)
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {error}") from None
        except Exception as error:  # A template may raise anything.
            words = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigurationError(
                f"{where}: the chat template cannot show it ({words}); change the row or the template"
            ) from error
        if known is not None and largest >= known:
            raise ConfigurationError(
                f"{where}: the tokenizer writes it with the token {largest}, and the model knows {known}; give the "
                "model its own tokenizer, or drop the row"
            )
    columns = _empty_columns(config, parts)
    if looked < total:
        columns.append(
            f"{looked} of the {total} rows of {task.name} were shown to the chat template beforehand, evenly spread; "
            "of the others those whose messages have other roles, and those that may be too long"
        )
    return columns


def _every_row(task: Task) -> Iterator[tuple[str, Callable[[], Scenario]]]:
    """The rows of data, or the scenarios of a user's own finite task; nothing of generated ones."""
    listed: Any = getattr(task, "every_row", None)
    if listed is not None:
        yield from listed()
    elif not type(task).__module__.startswith("hocket."):
        splits: tuple[Split, ...] = ("eval", "train")
        for split in splits:
            size = task.size(split) or 0
            for number in range(0, size, -(-size // OWN) or 1):
                yield f"task {task.name}, {split} scenario {number}", partial(task.scenario, split, number)


def _rows_of(parts: RunContext, player: TextPlayer) -> int | None:
    """How many tokens the model of the first role knows; None where it is not in this process."""
    name = player.actors[player.workflow.roles[0]].policy
    model = getattr(parts.learners[name].policy, "model", None) if name in parts.learners else None
    return None if model is None else int(model.get_input_embeddings().num_embeddings)


def _kind(value: Any) -> Any:
    """What a template may find of another kind in a row, whatever the words are."""
    if isinstance(value, Mapping):
        return tuple((name, item if name == "role" else _kind(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_kind, value))
    return type(value), value == ""


def _empty_columns(config: Config, parts: RunContext) -> list[str]:
    """In a sentence each, which columns that reward functions ask for some rows do not have.

    Raises:
        ConfigurationError: for a column that no row has, and no curriculum adds.
    """
    functions = [reward for reward in chain(*parts.rewards_by_phase) if isinstance(reward, FunctionReward)]
    wanted = {name: function for function in functions for name in function.asked_for if name not in GIVEN}
    lacking: dict[str, list[str]] = {name: [] for name in wanted}
    total = 0
    for where, made in _every_row(parts.task) if wanted else ():
        scenario, total = made(), total + 1
        has = {"id": scenario.id, **scenario.metadata, "answer": scenario.answer}
        for name, places in lacking.items():
            if has.get(name) is None:
                places.append(where)
    for name, places in lacking.items():
        if len(places) == total > 0 and not any(name in scenario.metadata for scenario in _first_asked(config, parts)):
            raise ConfigurationError(
                f"reward {wanted[name].label} asks for {name!r}, which no row of {parts.task.name} has; add the "
                "column, or give the parameter a default"
            )
    return [
        f"{name} is empty in {len(places)} of {total} rows, as in {places[0]}; reward functions get None there"
        for name, places in lacking.items()
        if 0 < len(places) < total
    ]


def _first_asked(config: Config, parts: RunContext) -> list[Scenario]:
    """The first scenario of each phase, as its curriculum asks it."""
    key = parts.key.derive("curriculum")
    return [recipe.curriculum(parts.task, 0, 1, Ledger(), key)[0] for recipe, _ in config.phases]


def _most_tokens(scenario: Scenario, responses: Sequence[Any]) -> int:
    """A bound on the tokens of a scenario's prompt with the longest of some responses."""
    prompt, tools = _size(scenario.messages), _size(scenario.metadata.get("tools"))
    return prompt + tools + max(map(_size, responses), default=0)


def _size(response: Any) -> int:
    """The bytes of text or messages, with what a template writes around each."""
    if response is None:
        return 0
    if isinstance(response, str):
        return len(response.encode("utf-8", "surrogatepass")) + TOKENS_PER_MESSAGE
    return sum(len(repr(message).encode("utf-8", "surrogatepass")) + TOKENS_PER_MESSAGE for message in response)
