"""hocket: one engine for policy optimisation.

    import hocket
    run = hocket.train("sums", steps=100)
    print(run.evaluate().success)

The same from the command line: `hocket train --help`.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hocket.apps.use.loading import load
    from hocket.apps.use.run import Run
    from hocket.core.errors import ConfigurationError, HocketError
    from hocket.recipe import Recipe
    from hocket.run import Trainer, train
    from hocket.train.settings import Config

__version__ = "0.1.0"

# Threads that wait for one another spin for milliseconds by default, on cores that other programs may need. Some
# microseconds gain as much on quiet cores, and lose far less on busy ones. Read when torch is first imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")

__all__ = ["Config", "ConfigurationError", "HocketError", "Recipe", "Run", "Trainer", "load", "train"]

_HOMES = {
    "Config": "hocket.train.settings",
    "ConfigurationError": "hocket.core.errors",
    "HocketError": "hocket.core.errors",
    "Recipe": "hocket.recipe",
    "Run": "hocket.apps.use.run",
    "Trainer": "hocket.run",
    "load": "hocket.apps.use.loading",
    "train": "hocket.run",
}


def __getattr__(name: str) -> Any:
    """Loads torch and transformers only when something that needs them is used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hocket' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
