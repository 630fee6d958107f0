"""Names in saved configurations that have changed since: classes whose room has moved, tasks with another spelling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.names import task_spelling
from hocket.core.rooms import at_home, public

ROOMS = {"hocket.workflows": "hocket.agents.workflows", "hocket.tools": "hocket.agents.tools"}
"""Rooms that stand elsewhere now."""


def present_name(name: str) -> str:
    """The present name of a class or function; what left its room is found in the core, in a method or in the zoo."""
    room, _, last = name.rpartition(".")
    room = ROOMS.get(room, room)
    # `hocket.types` offers what the core defines.
    if room.startswith("hocket.") and room != "hocket.types" and last not in public(room):
        room = public("hocket.core").get(last) or at_home(last) or room
    return f"{room}.{last}"


def present(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's or a run's settings as plain data, with the tasks of recipes spelled as they are now."""
    changed = dict(settings)
    if isinstance(changed.get("recipe"), Mapping):
        changed["recipe"] = present(changed["recipe"])
    if isinstance(changed.get("plan"), list):
        changed["plan"] = [present(phase) if isinstance(phase, Mapping) else phase for phase in changed["plan"]]
    is_recipe = "objective" in changed and "name" in changed
    if is_recipe and isinstance(changed.get("task"), str):
        changed["task"] = task_spelling(changed["task"])
    return changed
