"""hocket: one engine for policy optimisation.

    import hocket
    run = hocket.train("sums", steps=100)
    print(run.evaluate())

The same from the command line: `hocket train --help`.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hocket.apps.use.loading import load
    from hocket.apps.use.run import Run
    from hocket.core.errors import ConfigurationError, HocketError
    from hocket.recipe import Recipe
    from hocket.run import Trainer, configure, train
    from hocket.train.settings import Config
    from hocket.train.training_engine import Engine

__version__ = "0.1.0"

# Threads that wait for one another spin for milliseconds by default, on cores that other programs may need. Some
# microseconds gain as much on quiet cores, and lose far less on busy ones. Read when torch is first imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")

if "ipykernel" in sys.modules:  # A library that transformers loads misses widgets for a bar that nobody sees.
    warnings.filterwarnings("ignore", message="IProgress not found")

__all__ = [  # noqa: RUF022  (ordered by first use)
    "train",
    "load",
    "Run",
    "Recipe",
    "Config",
    "configure",
    "Trainer",
    "Engine",
    "HocketError",
    "ConfigurationError",
]

_HOMES = {
    "train": "hocket.run",
    "load": "hocket.apps.use.loading",
    "Run": "hocket.apps.use.run",
    "Recipe": "hocket.recipe",
    "Config": "hocket.train.settings",
    "configure": "hocket.run",
    "Trainer": "hocket.run",
    "Engine": "hocket.train.training_engine",
    "HocketError": "hocket.core.errors",
    "ConfigurationError": "hocket.core.errors",
}


def __getattr__(name: str) -> Any:
    """Loads torch and transformers only when something that needs them is used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hocket' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, loaded or not, and what is loaded of the package."""
    return [*__all__, *(name for name in globals() if name not in __all__)]
