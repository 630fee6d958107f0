"""Where scenarios come from and how they are verified. `find` makes a task from its name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hocket.components import load_object
from hocket.errors import ConfigurationError, nearest
from hocket.stages import Task
from hocket.tasks.options import checked, parse_name

__all__ = ["Entry", "catalogue", "find"]


@dataclass(frozen=True)
class Entry:
    """A line of the catalogue: what to give to `--task`, and what it is."""

    name: str
    description: str


FORMS = (
    Entry("sums", "the default: sums and differences of two to four integers, e.g. 'What is 45 + 37?'"),
    Entry("reasoning-gym:NAME", "a generated dataset of reasoning-gym, e.g. reasoning-gym:chain_sum?max_terms=4"),
    Entry("PATH.jsonl", "a file with one JSON object per line: prompt, and optionally answer, split and other columns"),
    Entry("gym:ENVIRONMENT", "a Gymnasium environment for control policies, e.g. gym:CartPole-v1"),
    Entry("FILE.py:NAME", "a task object of yours, or a class or function that makes one"),
)


def catalogue(reasoning_gym: bool = False) -> list[Entry]:
    """What `find` understands; with `reasoning_gym` each of its datasets too (importing it takes seconds)."""
    if not reasoning_gym:
        return list(FORMS)
    from hocket.tasks import reasoning

    datasets = [Entry(f"reasoning-gym:{name}", text) for name, text in reasoning.datasets().items()]
    return [*FORMS, *datasets]


def find(name: str) -> Task:
    """The task called `name`; see `FORMS`. Settings follow a question mark: `NAME?key=value&key=value`.

    Raises:
        ConfigurationError: for an unknown name, with the nearest, or settings or files that are wrong.
    """
    base, settings = parse_name(name.strip())
    if base.startswith("reasoning-gym:"):
        from hocket.tasks.reasoning import ReasoningGym

        return ReasoningGym(base.removeprefix("reasoning-gym:"), settings)
    if base.startswith("gym:"):
        return _gym(base.removeprefix("gym:"), settings)
    if ".py:" in base:
        return _own(base, settings)
    if base.endswith(".jsonl"):
        from hocket.tasks.jsonl import JsonLines

        hints = {"eval_share": float, "extract": str, "instruct": bool}
        return JsonLines(Path(base), **checked(base, settings, hints))
    if base == "sums":
        from hocket.tasks.sums import Sums

        return Sums(**checked(base, settings, {"instruct": bool}))
    raise ConfigurationError(f"there is no task {name!r}{_hint(base)}")


def _gym(environment: str, settings: Mapping[str, str]) -> Task:
    import json

    from hocket.tasks.gym import GymTask

    def value(text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            return text

    return cast(Task, GymTask(environment, {key: value(text) for key, text in settings.items()}))


MEMBERS = ("name", "kind", "size", "scenario", "rewards", "suggest", "describe", "success")


def _own(reference: str, settings: Mapping[str, str]) -> Task:
    """A user's task: the object itself, or what a class or function makes of the settings."""
    found = load_object(reference, "task")
    if inspect.isclass(found) or inspect.isroutine(found):
        hints = {name: _annotation(parameter) for name, parameter in inspect.signature(found).parameters.items()}
        given = checked(reference, settings, hints)
        try:
            found = found(**given)
        except TypeError as error:
            raise ConfigurationError(
                f"task {reference} cannot be made: {error}; write {reference}?key=value"
            ) from error
    elif settings:
        raise ConfigurationError(f"task {reference} is an object already, so it takes no settings")
    missing = [member for member in MEMBERS if not hasattr(found, member)]
    if missing:
        raise ConfigurationError(
            f"task {reference} lacks {', '.join(missing)}; derive it from hocket.tasks.text.TextTask, or give it the "
            "members of hocket.stages.Task"
        )
    return cast(Task, found)


def _annotation(parameter: inspect.Parameter) -> Any:
    """The type a user's parameter takes from text: its annotation if simple, else its default's, else text."""
    simple = {"int": int, "float": float, "bool": bool, "str": str}
    named = (
        parameter.annotation if isinstance(parameter.annotation, str) else getattr(parameter.annotation, "__name__", "")
    )
    if named in simple:
        return simple[named]
    kind = type(parameter.default)
    return kind if kind in (int, float, bool) else str


def _hint(base: str) -> str:
    """The nearest name, datasets of reasoning-gym included when their files can be seen without importing it."""
    if Path(base).is_file():
        return "; a data file must end in .jsonl"
    from hocket.tasks.reasoning import dataset_files

    names = {"sums": "sums", **{name: f"reasoning-gym:{name}" for name in dataset_files()}}
    close = nearest(base.rpartition(":")[2], names)
    if close.startswith("; did you mean "):
        word = close.removeprefix("; did you mean '").removesuffix("'?")
        return f"; did you mean {names[word]!r}?"
    return f"; choose from {', '.join(entry.name for entry in FORMS)}"
