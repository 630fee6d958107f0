"""Recipes as plain data, kept so that they can be listed and shown without importing what they are made of.

`methods/cards.jsonl` holds a card a line, with a digest of the code it was made from; the card of a recipe whose code
has changed since is made anew. `hocket recipes --docs` writes the file.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hocket.core.discovery import Declaration
from hocket.core.names import RECIPES, unknown_recipe
from hocket.lab.claims.digests import METHODS, digest

if TYPE_CHECKING:
    from hocket.recipe import Recipe

FILE = METHODS / "cards.jsonl"

SLOTS = (
    *("workflow", "cast", "curriculum", "hooks", "rollout", "rewards", "combine", "shaping", "store"),
    *("credit", "correction", "objective", "regularisers", "update"),
)

Card = Mapping[str, Any]
"""A recipe's name, title, source, …, formula, conventions and composition, as in `hocket recipes NAME --json`."""


def card_of(recipe: Recipe) -> dict[str, Any]:
    """A recipe as plain data; what was found of its claims is not in it."""
    from hocket.core.columns import InfoColumn
    from hocket.core.components import to_plain

    plain = to_plain(recipe)
    columns = [column.name for column in recipe.reads if not isinstance(column, InfoColumn)]
    return {
        "name": recipe.name,
        "title": recipe.title,
        "source": recipe.source,
        "catalogue_ids": list(recipe.catalogue_ids),
        "family": recipe.family,
        "axes": list(recipe.axes),
        "parent": recipe.parent,
        "needs": sorted({*(need.value for need in recipe.needs), *columns}),
        "note": recipe.note,
        "task": recipe.task,
        "requires": [requirement.value for requirement in recipe.requires],
        **({"survives": list(recipe.survives)} if recipe.survives else {}),
        "formula": recipe.formula,
        "conventions": dict(recipe.conventions),
        "composition": {name: plain[name] for name in SLOTS if plain[name] is not None},
    }


@functools.cache
def _kept() -> Mapping[str, Mapping[str, Any]]:
    """The kept lines by recipe."""
    if not FILE.is_file():
        return {}
    lines = (json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines())
    return {line["card"]["name"]: line for line in lines}


def card(name: str) -> Card:
    """The card of a recipe by its name or `FILE.py:NAME`.

    Raises:
        ConfigurationError: for an unknown name, with the nearest.
    """
    if name.endswith(".py") or ".py:" in name:
        from hocket.recipes import find

        return card_of(find(name))
    if name not in RECIPES:
        raise unknown_recipe(name)
    return _of(RECIPES.declared[name])


@functools.cache
def cards() -> Mapping[str, Card]:
    """Every recipe's card by its name."""
    return {name: _of(declared) for name, declared in RECIPES.declared.items()}


def _of(declared: Declaration) -> Card:
    line = _kept().get(declared.name)
    if line is not None and line["digest"] == digest(declared.module, words=True):
        return dict(line["card"])
    return card_of(declared.load())


def write() -> None:
    """Makes all cards of the library anew."""
    lines = [
        {"digest": digest(declared.module, words=True), "card": card_of(declared.load())}
        for declared in sorted(RECIPES.own.values(), key=lambda declared: declared.name)
    ]
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    FILE.write_text(text, encoding="utf-8")
    _kept.cache_clear()
    cards.cache_clear()
