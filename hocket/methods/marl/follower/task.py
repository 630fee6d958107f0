"""Path finding along planned paths, by name."""

from __future__ import annotations

from collections.abc import Mapping

from hocket.methods.marl.follower.guided_paths import PlannedPaths
from hocket.tasks.form import TaskVariant
from hocket.tasks.joint import JointTask
from hocket.zoo.tasks.paths import paths_task


def _planned(name: str, settings: Mapping[str, str]) -> JointTask:
    return paths_task(name, settings, {"crowd": float, "avoid": float}, PlannedPaths)


PLANNED = TaskVariant(
    name="mapf:planned",
    description="agents see a path planned to their goal, around where others are",
    make=_planned,
)
