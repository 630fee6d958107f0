"""The claims of every catalogue row: `hocket/methods/GROUP/claims/ROW.py`, imported when a row is asked for."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from hocket.core.discovery import sources
from hocket.core.names import RECIPES
from hocket.core.user_files import load_file
from hocket.lab.claims.claim import Check, Claims
from hocket.lab.claims.digests import METHODS


@functools.cache
def files() -> Mapping[str, Path]:
    """The file of claims of every row, by the row's id."""
    by_row = {file.stem.replace("_", "-"): file for file in METHODS.glob("*/claims/*.py") if file.stem != "__init__"}
    return dict(sorted(by_row.items()))


def checks_of(row: str) -> tuple[Check, ...]:
    """The checks of one catalogue row, of a user's `FILE.py`, or of an installed package's recipe; else none.

    Raises:
        ConfigurationError: for a file that cannot be run.
    """
    if row.endswith(".py"):
        return _stated(load_file(Path(row), "--check"))
    if row not in files():
        return _installed(row)
    return tuple(check for claims in claims_of(row) for check in claims)


def claims_of(row: str) -> tuple[Claims, ...]:
    """What the library's file of a row's claims states."""
    parts = files()[row].relative_to(METHODS).with_suffix("").parts
    module = importlib.import_module(".".join(("hocket.methods", *parts)))
    return tuple(value for value in vars(module).values() if isinstance(value, Claims))


def _installed(name: str) -> tuple[Check, ...]:
    """Those that the module of an installed package's recipe states, or `claims.MODULE` beside it."""
    if name in RECIPES.own or name not in RECIPES.declared:
        return ()
    module = RECIPES.declared[name].module
    package, _, stem = module.rpartition(".")
    beside = f"{package}.claims.{stem}"
    modules = (module, beside) if package and sources(beside) else (module,)
    return tuple(check for path in modules for check in _stated(importlib.import_module(path)))


@functools.cache
def all_checks() -> tuple[Check, ...]:
    """Every check of the library, rows in alphabetical order, checks as written."""
    return tuple(check for row in files() for check in checks_of(row))


def _stated(module: ModuleType) -> tuple[Check, ...]:
    return tuple(check for value in vars(module).values() if isinstance(value, Claims) for check in value)
