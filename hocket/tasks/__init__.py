"""Where scenarios come from and how they are verified. `find` makes a task from its name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hocket.components import load_object
from hocket.core.options import checked, parse_name
from hocket.errors import ConfigurationError, nearest
from hocket.stages import Task

__all__ = ["Entry", "catalogue", "find"]


@dataclass(frozen=True)
class Entry:
    """A line of the catalogue: what to give to `--task`, and what it is."""

    name: str
    description: str


FORMS = (
    Entry("sums", "the default: sums and differences of two to four integers, e.g. 'What is 45 + 37?'"),
    Entry("reasoning-gym:NAME", "a generated dataset of reasoning-gym, e.g. reasoning-gym:chain_sum?max_terms=4"),
    Entry("calculator", "products that need the calculator tool, e.g. calculator?digits=3&listed=false"),
    Entry("code", "small Python functions judged by unit tests in a sandbox, e.g. code?steps=2&grading=share"),
    Entry("PATH.jsonl", "a file with one JSON object per line: prompt, and optionally answer, split and other columns"),
    Entry("gym:ENVIRONMENT", "a Gymnasium environment for control policies, e.g. gym:CartPole-v1"),
    Entry("openspiel:GAME", "a game of OpenSpiel in words, e.g. openspiel:kuhn_poker or openspiel:leduc_poker?tries=1"),
    Entry("textarena:GAME", "a game of TextArena, e.g. textarena:TicTacToe-v0"),
    Entry("gymnasium:ENVIRONMENT", "a Gymnasium environment in words, e.g. gymnasium:FrozenLake-v1?is_slippery=false"),
    Entry("pettingzoo:MODULE", "a PettingZoo environment in words, e.g. pettingzoo:classic.rps_v2 (needs pygame)"),
    Entry("openenv:URL", "the environment behind an OpenEnv server, e.g. openenv:http://localhost:8000"),
    Entry("household", "errands in a house in words, e.g. household?size=2&dense=0.1"),
    Entry("maze", "mazes in words, e.g. maze?width=4&height=4&slip=0.1"),
    Entry("multihop", "questions that take several searches in a generated corpus, e.g. multihop?hops=2"),
    Entry("sql", "questions about small databases, answered by a query, e.g. sql?level=3"),
    Entry("order_desk", "customers at an order desk with tools, e.g. order_desk?orders=4"),
    Entry("peer_quiz", "questions beside peers with a record, e.g. peer_quiz?question=sums&behaviour=mixed"),
    Entry("consultation", "a patient who tells what is asked, and a diagnosis, e.g. consultation?conditions=8"),
    Entry("split_maze", "mazes of which two agents see half each, e.g. split_maze?width=4&height=4&relay=2"),
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
    if base.partition(":")[0] in ("openspiel", "textarena", "gymnasium", "pettingzoo", "openenv"):
        from hocket.tasks.environment import environment_task

        return environment_task(base, settings)
    if base in WORLDS_HERE:
        return _here(base, settings)
    if ".py:" in base:
        return _own(base, settings)
    if base.endswith(".jsonl"):
        from hocket.tasks.jsonl import JsonLines

        hints = {"eval_share": float, "extract": str, "instruct": bool}
        return JsonLines(Path(base), **checked(base, settings, hints))
    if base == "calculator":
        from hocket.tasks.calculator import Calculations

        return Calculations(**checked(base, settings, {"digits": int, "listed": bool, "calls": float}))
    if base == "sums":
        from hocket.tasks.sums import Sums

        return Sums(**checked(base, settings, {"instruct": bool}))
    raise ConfigurationError(f"there is no task {name!r}{_hint(base)}")


WORLDS_HERE = ("code", "consultation", "household", "maze", "multihop", "order_desk", "peer_quiz", "split_maze", "sql")
"""Tasks of this library's own making, besides `sums`."""


def _here(name: str, settings: Mapping[str, str]) -> Task:
    """A task of this library with its settings."""
    module = importlib.import_module(f"hocket.tasks.{name}")
    return cast(Task, module.from_settings(name, settings))


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

    own = {name: name for name in ("sums", *WORLDS_HERE)}
    names = {**own, **{name: f"reasoning-gym:{name}" for name in dataset_files() if name not in own}}
    close = nearest(base.rpartition(":")[2], names)
    if close.startswith("; did you mean "):
        word = close.removeprefix("; did you mean '").removesuffix("'?")
        return f"; did you mean {names[word]!r}?"
    return f"; choose from {', '.join(entry.name for entry in FORMS)}"
