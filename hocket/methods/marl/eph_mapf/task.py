"""Path finding among neighbours, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.methods.marl.eph_mapf.neighbours import NeighbouringPaths
from hocket.tasks.form import TaskVariant
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task
from hocket.zoo.tasks.paths import PathsTask

_SUGGESTED: Mapping[str, Any] = {"steps": 60, "credit.gamma": 0.95, "update.lr": 2e-3, "network.hidden": [64, 64]}


class NeighboursTask(PathsTask):
    """A `PathsTask` whose goals are rarely reached at first, so that a step brings more episodes to a store."""

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        more = {"curriculum.prompts": 10} if recipe.store is not None else {}
        return {**super().suggest(recipe), **more}


def _neighbours(name: str, settings: Mapping[str, str]) -> JointTask:
    hints: dict[str, Any] = dict.fromkeys(("size", "agents", "length", "sight", "near"), int)
    hints |= {"density": float, "map": str, "settled": bool}
    return native_task(name, settings, hints, NeighbouringPaths, _SUGGESTED, identified=False, form=NeighboursTask)


NEIGHBOURS = TaskVariant(
    name="mapf:neighbours",
    description="agents see what their neighbours see, and stay on their goals",
    make=_neighbours,
)
