"""What old configurations call things: classes that have moved, and settings that have another form now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CLASSES: dict[str, str] = {}
"""The present name of every class or function that configurations once named otherwise."""


def aliases() -> Mapping[str, str]:
    """Present names by old ones."""
    return CLASSES


def present(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's or a run's settings as plain data, in the present form; what is in it already stays as it is."""
    return dict(settings)
