"""Learners, plans, the loop, and what a run leaves behind.

`hocket.train` is this package and also the function `hocket.train(task, ...)`: calling it is `hocket.run.train`.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

from hocket.train.settings import (
    CheckpointSettings,
    Config,
    EngineSettings,
    EvaluationSettings,
    MemorySettings,
    Phase,
    RoleSettings,
)

__all__ = [
    "CheckpointSettings",
    "Config",
    "EngineSettings",
    "EvaluationSettings",
    "MemorySettings",
    "Phase",
    "RoleSettings",
]


class _CallablePackage(ModuleType):
    """Importing any part of this package binds `hocket.train` to it, so the package answers the call itself."""

    @property
    def __signature__(self) -> inspect.Signature:
        """The arguments that a notebook shows."""
        from hocket.run import train

        return inspect.signature(train)

    def __call__(self, *args: Any, **settings: Any) -> Any:
        from hocket.run import train

        return train(*args, **settings)


sys.modules[__name__].__class__ = _CallablePackage
