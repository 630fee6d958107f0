"""Recipes by name: the registry of `hocket.methods`, where every published method is a file.

from hocket.recipes import GRPO      # by the name of its constant
find("grpo")                         # by its own; imports hocket.methods.base.grpo alone
"""

from __future__ import annotations

import functools

from hocket.core.errors import ConfigurationError
from hocket.core.names import RECIPES, unknown_recipe
from hocket.core.user_files import load_object
from hocket.recipe import Recipe


@functools.cache
def all_recipes() -> dict[str, Recipe]:
    """Every recipe of the library and of installed packages, by its name."""
    return {name: RECIPES.load(name) for name in RECIPES.declared}


def find(name: str) -> Recipe:
    """The recipe called `name`, or the one that `FILE.py:NAME` defines.

    Raises:
        ConfigurationError: for an unknown name, with the nearest; for a file's object that is no recipe.
    """
    if ".py:" in name:
        loaded = load_object(name, "recipe")
        if not isinstance(loaded, Recipe):
            raise ConfigurationError(
                f"recipe = {name!r} is of type {type(loaded).__name__}; name a hocket.recipe.Recipe"
            )
        return loaded
    if name.endswith(".py"):
        raise ConfigurationError(f"recipe = {name!r}: say which recipe of the file, {name}:NAME")
    if name not in RECIPES:
        raise unknown_recipe(name)
    recipe = RECIPES.load(name)
    assert isinstance(recipe, Recipe)
    return recipe


def parent_of(recipe: Recipe) -> Recipe | None:
    """The recipe it was derived from, as the library or a package has it; None where nobody has it."""
    return find(recipe.parent) if recipe.parent and recipe.parent in RECIPES else None


@functools.cache
def _constants() -> dict[str, str]:
    """The names of the library's recipes by those of their constants."""
    return {declaration.attribute: name for name, declaration in RECIPES.own.items()}


def __getattr__(name: str) -> Recipe:
    if name.startswith("_") or name not in _constants():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return find(_constants()[name])


def __dir__() -> list[str]:
    return sorted({*globals(), *_constants()})
