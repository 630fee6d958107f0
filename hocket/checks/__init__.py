"""Does a method do what its paper says? Every catalogue row's claims, as checks that run.

`hocket recipes --check ID` runs a row's. Each module holds the rows of a family: functions that return a `Finding`, and
`CHECKS`, the `Check`s they belong to. What a full run found is kept in `verdicts.json`, from which `hocket recipes`
tells each row's status.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from hocket.checks.check import Check, Finding, Verdict

__all__ = ["Check", "Finding", "Verdict", "all_checks", "checks_of"]


@functools.cache
def all_checks() -> tuple[Check, ...]:
    """Every check of the library, families in alphabetical order, checks as written."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    return tuple(check for module in modules for check in getattr(module, "CHECKS", ()))


def checks_of(row: str) -> tuple[Check, ...]:
    """The checks of one catalogue row."""
    return tuple(check for check in all_checks() if check.row == row)
