"""Mini-games of real-time strategy, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.options import checked
from hocket.methods.marl.sc2le.world import MiniGame
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 64,
    "rollout.samples": 1,
    "steps": 100,
    "credit.gamma": 0.5,
    "credit.lam": 0.95,
    "update.lr": 1e-2,
}

_GAMES: Mapping[str, Mapping[str, int]] = {"beacon": {}, "shards": {"units": 2, "goals": 5}}
"""By name, what is another number than the world's own."""


def _rts(name: str, settings: Mapping[str, str]) -> JointTask:
    game = name.removeprefix("rts:")
    if game not in _GAMES:
        raise ConfigurationError(
            f"there is no task {name!r}; choose from {', '.join(f'rts:{one}' for one in _GAMES)}. StarCraft's own maps "
            "need its program, which cannot be had as a package"
        )
    hints = dict.fromkeys(("units", "goals", "size", "length", "pace"), int)
    world = MiniGame(**{**_GAMES[game], **checked(name, settings, hints)})
    if world.name != name:
        raise ConfigurationError(f"task {name}: goals = {world.goals} is {world.name}")
    return JointTask(world, suggested=_SUGGESTED)


RTS = TaskForm(
    name="rts:GAME",
    description="units that fetch goals, ordered by a function and points of the screen: rts:beacon or rts:shards",
    make=_rts,
)
