"""Every stage that recipes are composed of, wherever it lives: in its room, or in the file of its only method."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hocket.core.discovery import sources
from hocket.recipes import all_recipes
from hocket.stages import Stage

ROOMS = {
    "curriculum": "What is asked",
    "rollout": "How samples are drawn",
    "rewards": "What is good, and edits of it",
    "credit": "Who gets how much, and corrections",
    "objectives": "What is minimised",
    "update": "How a step is made",
    "hooks": "What happens around a step",
}


@dataclass(frozen=True)
class Primitive:
    """A stage class: `stage` is what it does, `where` the module that holds it, `recipes` those that use it."""

    name: str
    stage: str
    where: str
    summary: str
    recipes: tuple[str, ...]


@functools.cache
def primitives() -> tuple[Primitive, ...]:
    """All of them, by stage and name."""
    users = _users()
    listed = [
        Primitive(kind.__name__, kind.room, kind.__module__, _first(kind), tuple(users.get(kind, ())))
        for kind in set(_classes())
        if kind.room in ROOMS
    ]
    return tuple(sorted(listed, key=lambda primitive: (list(ROOMS).index(primitive.stage), primitive.name)))


def _classes() -> Iterator[type[Stage]]:
    """The stage classes that a configuration may name."""
    for package in (*ROOMS, "methods"):
        for name, _ in sources(f"hocket.{package}"):
            module = importlib.import_module(name)
            for kind in vars(module).values():
                if not inspect.isclass(kind) or kind.__module__ != name or kind.__name__.startswith("_"):
                    continue
                if issubclass(kind, Stage) and "__dataclass_fields__" in vars(kind):
                    yield kind


def _first(kind: type[Any]) -> str:
    """The first paragraph of a docstring, in a line."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def _users() -> dict[type[Any], list[str]]:
    """The names of the recipes that use each stage."""
    users: dict[type[Any], list[str]] = {}
    for recipe in all_recipes().values():
        for kind in dict.fromkeys(_kinds(recipe)):
            users.setdefault(kind, []).append(recipe.name)
    return users


def _kinds(value: Any) -> Iterator[type[Any]]:
    """The classes of all components inside a value."""
    if isinstance(value, tuple):
        for item in value:
            yield from _kinds(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value)
        for part in dataclasses.fields(value):
            yield from _kinds(getattr(value, part.name))
