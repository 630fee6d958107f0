"""Games at a table for control policies, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.options import checked, read_value
from hocket.methods.marl.pytag.world import SpielTable, ZooTable
from hocket.tasks.form import TaskVariant
from hocket.tasks.joint import JointTask

_PLAYED: Mapping[str, Any] = {
    "curriculum.prompts": 256,
    "rollout.samples": 1,
    "steps": 60,
    "credit.gamma": 1.0,
    "credit.lam": 1.0,
    "update.lr": 3e-3,
}
"""What suits games of a few moves."""


def _spiel(name: str, settings: Mapping[str, str]) -> JointTask:
    opponents, left = _table(name, settings)
    numbers = str(left.pop("players", ""))
    seats = _seats(name, numbers) if "-" in numbers else ()
    parameters = {**left, **({"players": read_value(numbers)} if numbers and not seats else {})}
    world = SpielTable(name.removeprefix("openspiel:"), parameters, seats, **opponents)
    return JointTask(world, identified=False, suggested=_PLAYED)


def _seats(name: str, numbers: str) -> tuple[int, ...]:
    found = re.fullmatch(r"(\d+)-(\d+)", numbers)
    if found is None or not 1 <= int(found[1]) < int(found[2]):
        raise ConfigurationError(f"task {name}: players = {numbers!r}; give a number, or two such as 2-4")
    return tuple(range(int(found[1]), int(found[2]) + 1))


def _zoo(name: str, settings: Mapping[str, str]) -> JointTask:
    opponents, left = _table(name, settings)
    world = ZooTable(name.removeprefix("pettingzoo:"), left, **opponents)
    return JointTask(world, identified=False, suggested=_PLAYED)


def _table(name: str, given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Who plays against the learners, and the settings left, which are the game's."""
    hints = {"against": str, "searches": int}
    opponents = checked(name, {key: text for key, text in given.items() if key in hints}, hints)
    return opponents, {key: read_value(text) for key, text in given.items() if key not in hints}


SPIEL = TaskVariant(
    name="openspiel:GAME?kind=control",
    description="a game of OpenSpiel for control policies",
    make=_spiel,
)

ZOO = TaskVariant(
    name="pettingzoo:MODULE?kind=control",
    description="a game of PettingZoo that goes turn by turn, for control policies",
    make=_zoo,
)
