"""What a task and its kind suggest for the settings of a recipe: only for those that the recipe leaves open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hocket.core.components import differences, has_path, is_component, is_default, value_at
from hocket.core.names import RECIPES
from hocket.recipe import Recipe
from hocket.recipes import find, parent_of
from hocket.stages import Stage
from hocket.types import Decoding


def is_open(recipe: Recipe, path: str) -> bool:
    """Whether a recipe leaves a setting, which it has, to the task it runs on.

    A recipe of the library that is made of no other leaves all its settings open, one made of another (by `but`) those
    that it has not changed. What a recipe brings itself, as one that is made of none, is open where it has the value
    that its class gives it.
    """
    return _unchanged(recipe, path, lambda known: known.parent is None and _is_ours(known))


def lengths_of(recipe: Recipe, longest: int) -> Mapping[str, float]:
    """Settings that are lengths (`Stage.lengths`), for responses of at most `longest` decisions.

    The library's recipes state them for responses of `Decoding().max_tokens`; the proportion is kept. Those that a
    user's recipe states itself are left out.
    """
    usual = Decoding().max_tokens
    lengths = {path: value for path, value in _lengths(recipe, "") if _unchanged(recipe, path, _is_ours)}
    return {path: type(value)(max(1, round(value * longest / usual))) for path, value in lengths.items()}


def changed(recipe: Recipe) -> Mapping[str, tuple[Any, Any]]:
    """Settings of a recipe of the library that are others in a run: the value there and here, by dotted path."""
    if recipe.name not in RECIPES.declared:
        return {}
    return {path: (before, after) for path, before, after in differences(find(recipe.name), recipe)}


def _lengths(component: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Settings that are lengths and their values, by dotted path."""
    if isinstance(component, tuple):
        for number, member in enumerate(component):
            yield from _lengths(member, f"{where}{number}.")
    elif is_component(component):
        lengths = component.lengths if isinstance(component, Stage) else ()
        for name, value in vars(component).items():
            if name in lengths:
                yield f"{where}{name}", value
            else:
                yield from _lengths(value, f"{where}{name}.")


def _unchanged(recipe: Recipe, path: str, is_source: Callable[[Recipe], bool]) -> bool:
    """Whether a setting is as in the nearest recipe behind this one that is a source, else as its class gives it."""
    if is_source(recipe):
        return True
    origin = _origin(recipe)
    if origin is None or not has_path(origin, path):
        return is_default(recipe, path)
    return bool(value_at(recipe, path) == value_at(origin, path)) and _unchanged(origin, path, is_source)


def _is_ours(recipe: Recipe) -> bool:
    """Whether it is a recipe of the library, unchanged."""
    return recipe.name in RECIPES.own and find(recipe.name) == recipe


def _origin(recipe: Recipe) -> Recipe | None:
    """What it was made of: the recipe of this name where it differs, else its parent."""
    if recipe.name in RECIPES.declared and find(recipe.name) != recipe:
        return find(recipe.name)
    return parent_of(recipe)
