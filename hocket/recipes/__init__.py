"""Published methods as compositions, one short file per family.

Every `Recipe` that a module of this package defines is found by itself: `from hocket.recipes import GRPO` by the name
of its constant, `find("grpo")` by its own.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from hocket.components import load_object
from hocket.errors import ConfigurationError, nearest
from hocket.recipe import Recipe


@functools.cache
def _constants() -> dict[str, Recipe]:
    """Every recipe by the name of its constant, families in alphabetical order, members as written."""
    found: dict[str, Recipe] = {}
    for module in pkgutil.iter_modules(__path__):
        family = importlib.import_module(f"{__name__}.{module.name}")
        found.update((name, value) for name, value in vars(family).items() if isinstance(value, Recipe))
    return found


def all_recipes() -> dict[str, Recipe]:
    """Every recipe of the library by its name."""
    return {recipe.name: recipe for recipe in _constants().values()}


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
    known = all_recipes()
    if name not in known:
        raise ConfigurationError(f"recipe = {name!r} is unknown{nearest(name.lower(), known)}")
    return known[name]


def __getattr__(name: str) -> Recipe:
    if name.startswith("_") or name not in _constants():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _constants()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_constants()})
