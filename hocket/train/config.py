"""The configuration of a run. Precedence: defaults < recipe < config file < flags; later flags override earlier ones.

A task suggests settings too (response length, steps); they count as defaults. Keys are dotted. A key that begins with a
slot of the recipe (`objective.low`) is a setting of that slot.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from hocket.core.aliases import present
from hocket.core.casting import __all__ as CASTS
from hocket.core.components import differences, field_types, from_plain, has_path, replaced, value_at
from hocket.core.discovery import hyphenated
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.yaml_text import load_yaml
from hocket.policies.settings import LoraSettings
from hocket.recipe import Recipe
from hocket.recipes import find as find_recipe
from hocket.stages import Task
from hocket.train.kinds import kind_of
from hocket.train.kinds.kind import SHIPPED_OF
from hocket.train.known_names import meaning
from hocket.train.settings import SLOTS, Config, Phase, RoleSettings, as_recipe, flat_pairs
from hocket.train.suggestions import is_open

Pairs = Sequence[tuple[str, Any]]
"""Dotted keys and values, in the order in which they are applied."""


def task_of(pairs: Pairs) -> str:
    """The name of the task of a run: the last one named in `pairs`, else the recipe's task, else `sums`."""
    named = [str(value) for key, value in pairs if key == "task"]
    if named:
        return named[-1]
    chosen = [value for key, value in pairs if key == "recipe"]
    return (as_recipe(chosen[-1]).task if chosen else None) or Config.task


def configure(pairs: Pairs, task: Task) -> Config:
    """The configuration of a task from `pairs`, which override the task's suggestions.

    Raises:
        ConfigurationError: for an unknown key (with the nearest), a wrong type, or stages that do not fit together.
    """
    chosen = [value for key, value in pairs if key == "recipe"]
    settings = [(key, value) for key, value in pairs if key != "recipe"]
    config = Config(task=task.name, recipe=as_recipe(chosen[-1]) if chosen else find_recipe("grpo"))
    suggested = {"model": default_model(config.recipe, task), **task.suggest(config.recipe)}
    run = [(key, value) for key, value in [*suggested.items(), *settings] if not is_of_recipe(key) and key != "tools"]
    run.sort(key=lambda pair: pair[0] == "weights")  # Codes need an adapter, whichever of both is named first.
    config = _equipped(applied(config, run), [str(value) for key, value in settings if key == "tools"])
    method = [(key, value) for key, value in settings if is_of_recipe(key)]
    if config.plan:
        return _planned(config, method, task)
    recipe = chosen[-1] if chosen else "grpo"
    return applied(config, [*_suggested(config, recipe, task), *method])


def default_model(recipe: Recipe, task: Task) -> str:
    """The model of a run that names none: the one that the task suggests, else one that the recipe samples from."""
    sampled = SHIPPED_OF.get(getattr(recipe.rollout, "plays", ""), Config.model)
    return str(task.suggest(recipe).get("model", sampled))


def unused_suggestions(config: Config, task: Task) -> list[str]:
    """Settings in which `config` has the value of the library and the task suggests another, as `KEY = SUGGESTION`."""
    names: dict[str, Any] = {"task": config.task, "model": config.model, "recipe": config.recipe}
    rows = differences(Config(**names), configure(list(names.items()), task))
    unused = ((path, new) for path, old, new in rows if path != "steps" and value_at(config, path) == old)
    return [f"{path.removeprefix('recipe.')} = {new}" for path, new in unused]


def _equipped(config: Config, tools: Sequence[str]) -> Config:
    """The configuration with tools for its workflow. The last item counts: tool names, separated by commas."""
    if not tools:
        return config
    base, _, query = (config.workflow or "tool-use").partition("?")
    if hyphenated(base) != "tool-use" or "tools_of=" in query:
        raise ConfigurationError(
            f"tools = {tools[-1]!r} and workflow = {config.workflow!r}: tools go to the workflow tool-use; name them "
            "there, or in a workflow of your own"
        )
    return dataclasses.replace(config, workflow=f"{base}?{query}{'&' * bool(query)}tools_of={quote(tools[-1])}")


STEPS = 120
"""The default number of training steps."""


def settled(config: Config, task: Task) -> Config:
    """`config` with a number of steps: its own, else the task's suggestion, else `STEPS`."""
    if config.steps is not None or config.plan:
        return config
    return dataclasses.replace(config, steps=int(task.suggest(config.recipe).get("steps", STEPS)))


def _planned(config: Config, method: Pairs, task: Task) -> Config:
    """The configuration of a plan: each phase takes the settings that its recipe has. The last recipe is the run's."""
    phases = []
    unused = {key for key, _ in method}
    for phase in config.plan:
        recipe = as_recipe(phase.recipe)
        matching = fitting(method, recipe)
        unused -= {key for key, _ in matching}
        settings = [*_suggested(config, phase.recipe, task), *matching]
        base = dataclasses.replace(config, recipe=recipe)
        phases.append(dataclasses.replace(phase, recipe=applied(base, settings).recipe))
    if unused:
        raise ConfigurationError(f"no recipe of the plan has the setting {min(unused)!r}; see `hocket recipes NAME`")
    recipe = as_recipe(phases[-1].recipe)
    return dataclasses.replace(config, recipe=recipe, plan=tuple(phases), steps=sum(phase.steps for phase in phases))


def fitting(method: Pairs, recipe: Recipe) -> list[tuple[str, Any]]:
    """The settings of recipes that `recipe` has: key and value."""
    return [(key, value) for key, value in method if has_path(recipe, key.removeprefix("recipe."))]


def lengthened(config: Config, steps: int) -> Config:
    """The same configuration with another total number of steps; in a plan, the last phase changes.

    Raises:
        ConfigurationError: when no step would remain for the last phase.
    """
    if not config.plan:
        return dataclasses.replace(config, steps=steps)
    last = config.plan[-1]
    left = last.steps + steps - config.total_steps
    if left < 1:
        earlier = config.total_steps - last.steps
        raise ConfigurationError(f"steps = {steps}: the phases before the last one take {earlier} already; set more")
    return dataclasses.replace(config, steps=steps, plan=(*config.plan[:-1], dataclasses.replace(last, steps=left)))


def _suggested(config: Config, given: Any, task: Task) -> Pairs:
    """The task's suggestions for the recipe `given`: a name, an object or plain data.

    Plain data, as in a saved run, includes the suggestions already, so they give none.
    """
    if isinstance(given, Mapping):
        return []
    recipe = as_recipe(given)
    suggested = _fitting(recipe, task.suggest(recipe))
    return [
        *kind_of(task, config).suggest(config, recipe).items(),
        *((key, v) for key, v in suggested if is_open(recipe, key)),
    ]


def is_of_recipe(key: str) -> bool:
    """Whether a dotted key is a setting of the recipe rather than of the run."""
    return key.split(".")[0] in ("recipe", *SLOTS)


def _fitting(recipe: Recipe, suggestions: Mapping[str, Any]) -> Pairs:
    """The suggestions for settings that this recipe has: a recipe without a critic has no `credit.lam`."""
    repeated = () if not recipe.objective.on_policy_only else ("update.epochs", "update.minibatches")
    return [
        (key, value)
        for key, value in suggestions.items()
        if key.split(".")[0] in SLOTS and has_path(recipe, key) and key not in repeated
    ]


def applied(config: Config, pairs: Pairs) -> Config:
    """`config` with other settings.

    Raises:
        ConfigurationError: as `configure`.
    """
    edits: dict[str, Any] = {}
    for key, value in pairs:
        head = key.split(".")[0]
        if key == "recipe":
            config = dataclasses.replace(config, recipe=as_recipe(value))
        elif head == "recipe":
            edits[key.partition(".")[2]] = value
        elif head in SLOTS:
            edits[key] = _cast(value) if key == "cast" and isinstance(value, str) else value
        else:
            config = _set(config, key, value)
    return dataclasses.replace(config, recipe=config.recipe.but(edits)) if edits else config


def _cast(name: str) -> Mapping[str, str]:
    """The cast of this name, as plain data; `--cast separate`."""
    cast = next((cast for cast in CASTS if cast.lower() == name.lower()), None)
    if cast is None:
        raise ConfigurationError(f"cast = {name!r} is unknown{nearest(name, CASTS)}")
    return {"type": f"hocket.core.{cast}"}


def _set(config: Config, key: str, value: Any) -> Config:
    key = "overlap" if key == "lag" else key  # `lag` is the term of asynchronous training.
    head, _, rest = key.partition(".")
    known = field_types(Config)
    if head not in known:
        raise ConfigurationError(f"there is no setting {key!r}{meaning(key) or nearest(head, [*known, *SLOTS])}")
    if head == "roles":
        return _set_role(config, rest, value)
    if head == "chat":
        return _set_chat(config, rest, value)
    if head == "date" and isinstance(value, datetime.date):
        value = value.isoformat()
    if head == "plan" and not rest:
        return dataclasses.replace(config, plan=_phases(value))
    if head == "engine" and not rest and isinstance(value, str):
        key = "engine.kind"  # `--engine vllm`
    if key.startswith("engine.arguments"):
        return _set_argument(config, key.split(".")[2:], value)
    hint = known[head]
    grouped = isinstance(hint, type) and dataclasses.is_dataclass(hint)
    if grouped and "." not in key and not isinstance(value, (Mapping, hint)):
        raise ConfigurationError(f"{key} = {value!r}: it has settings of its own; write {key}.NAME VALUE")
    if head == "lora" and (rest or value is True):
        config = dataclasses.replace(config, lora=config.lora or LoraSettings())
        return config if not rest else _checked(config, key, value)
    return _checked(config, key, value)


def _phases(value: Any) -> tuple[Phase, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConfigurationError(f"plan = {value!r}: write a list of phases, each {{recipe: NAME, steps: N}}")
    phases = []
    for number, item in enumerate(value):
        where = f"plan.{number}"
        if isinstance(item, Mapping) and not {"recipe", "steps"} <= item.keys():
            raise ConfigurationError(f"{where}: a phase needs a recipe and steps, as in {{recipe: sft, steps: 20}}")
        phase = from_plain(present(item) if isinstance(item, Mapping) else item, Phase, where)
        if not isinstance(phase, Phase):
            raise ConfigurationError(f"{where} = {item!r}: write {{recipe: NAME, steps: N}}")
        phases.append(phase)
    return tuple(phases)


def _set_role(config: Config, rest: str, value: Any) -> Config:
    name, _, setting = rest.partition(".")
    if isinstance(value, Mapping) and not setting:
        for inner, item in value.items():
            config = config if inner == "type" else _set_role(config, f"{name}.{inner}", item)
        return config
    if not name or not setting:
        raise ConfigurationError("write --roles.NAME.SETTING VALUE, for example --roles.worker.frozen true")
    role = replaced(config.roles.get(name, RoleSettings()), setting, value, f"roles.{name}")
    return dataclasses.replace(config, roles={**config.roles, name: role})


def _set_chat(config: Config, rest: str, value: Any) -> Config:
    """A variable of the chat template, or all of them."""
    if not rest and not isinstance(value, Mapping):
        raise ConfigurationError("write --chat.VARIABLE VALUE, for example --chat.enable_thinking false")
    variables = dict(flat_pairs(value)) if not rest else {rest: value}
    for name, item in variables.items():
        if not name.isidentifier():
            raise ConfigurationError(f"chat.{name}: a variable of a chat template is one word; lists go in as [..]")
        if isinstance(item, datetime.date):
            variables[name] = item.isoformat()
    return dataclasses.replace(config, chat={**config.chat, **variables})


def _set_argument(config: Config, path: Sequence[str], value: Any) -> Config:
    """An argument of the engine's own, or all of them; a longer path goes into an argument that is a mapping."""
    if not path and not isinstance(value, Mapping):
        raise ConfigurationError(
            f"engine.arguments = {value!r}: write --engine.arguments.NAME VALUE, for example "
            "--engine.arguments.tensor_parallel_size 2"
        )
    for name in reversed(path):
        value = {name: value}
    arguments = _overlaid(config.engine.arguments, value)
    return dataclasses.replace(config, engine=dataclasses.replace(config.engine, arguments=arguments))


def _overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two nested mappings as one; the values of `above` count."""
    both = {name for name in above if isinstance(above[name], Mapping) and isinstance(below.get(name), Mapping)}
    return {**below, **above, **{name: _overlaid(below[name], above[name]) for name in both}}


def _checked(config: Config, key: str, value: Any) -> Config:
    if isinstance(value, str) and field_types(Config).get(key) == tuple[str, ...]:
        value = (value,)  # `--track tensorboard` is a list of one
    changed = replaced(config, key, value)
    assert isinstance(changed, Config)
    return changed


# ---------------------------------------------------------------- files


def read_pairs(path: Path) -> list[tuple[str, Any]]:
    """The settings of a YAML file as dotted pairs. A mapping with `type` is one value; other mappings are flattened."""
    if not path.is_file():
        raise ConfigurationError(f"there is no configuration file {path}")
    try:
        data = load_yaml(path.read_text())
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is not valid YAML: {_yaml_problem(error)}") from None
    if data is None:
        return []
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{path} must hold keys and values, not {type(data).__name__}")
    return list(flat_pairs(present(data)))


def _yaml_problem(error: yaml.YAMLError) -> str:
    """The problem and its position in the file."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def loaded(data: Mapping[str, Any], task: Task) -> Config:
    """The configuration from the output of `Config.plain`, also of earlier versions."""
    return configure(list(flat_pairs(present(data))), task)
