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
    return dict(_masked(settings))


def _masked(value: Any, name: str = "") -> Any:
    """The mass of a nucleus, `decoding.nucleus`, became one of the masks that `decoding.mask` may be."""
    if isinstance(value, list):
        return [_masked(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    settings = {key: _masked(one, key) for key, one in value.items()}
    if "nucleus" in settings and (name == "decoding" or settings.get("type") == "hocket.types.Decoding"):
        mass = float(settings.pop("nucleus"))
        settings["mask"] = {"type": "hocket.rollout.NucleusMask", "mass": mass} if mass < 1 else None
    return settings
