"""Path finding as tasks: joint worlds whose episodes are measured as those of POGEMA are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.worlds import JointWorld
from hocket.stages import Task
from hocket.tasks.form import VARIANTS, TaskForm, TaskVariant, variant
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import GRIDS, native_task
from hocket.types import Trajectory
from hocket.zoo.joint.one_shot_paths import OneShotPaths
from hocket.zoo.joint.paths import LifelongPaths
from hocket.zoo.joint.walks import walk


@dataclass(frozen=True)
class PathsTask(JointTask):
    """A `JointTask` that tells of an episode the indicators of `hocket.zoo.joint.walks`, all in [0, 1].

    Throughput is an agent's; `cost`, the mean of the agents' costs, and `makespan` are shares of the limit of steps. Of
    worlds made around path finding, whose joint states may tell something else, it tells what any task tells.
    """

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        figures = super().describe(trajectory)
        if not isinstance(self.world, LifelongPaths):
            return figures
        by_name = {turn.agent: turn for turn in trajectory.turns}
        if set(by_name) != set(self.world.agents):
            return figures
        walked = walk([by_name[agent] for agent in self.world.agents], self.world.size)
        if walked is None:
            return figures
        figures = {**figures, "coordination": walked.coordination()}
        agents, limit = len(self.world.agents), self.world.length
        if not isinstance(self.world, OneShotPaths):
            return {**figures, "throughput": walked.throughput() / agents}
        costs = {"cost": walked.sum_of_costs / (agents * limit), "makespan": walked.makespan / limit}
        return {**figures, "solved": float(walked.solved), "arrived": walked.arrived, **costs}


def paths_task(
    name: str, settings: Mapping[str, str], hints: Mapping[str, Any], make: Callable[..., JointWorld]
) -> JointTask:
    """The task of a world of path finding with settings of its own, by `hints`, besides those that all have."""
    shared = {"size": int, "agents": int, "density": float, "length": int, "sight": int, "map": str}
    return native_task(name, settings, {**shared, **hints}, make, GRIDS, identified=False, form=PathsTask)


def _lifelong(name: str, settings: Mapping[str, str]) -> JointTask:
    return paths_task(name, settings, {"guide": bool}, LifelongPaths)


def _once(name: str, settings: Mapping[str, str]) -> JointTask:
    return paths_task(name, settings, {"guide": bool, "stay": bool}, OneShotPaths)


def _paths(name: str, settings: Mapping[str, str]) -> Task:
    kinds = [declared.removeprefix("mapf:") for declared in VARIANTS.declared if declared.startswith("mapf:")]
    kind = name.removeprefix("mapf:")
    if kind not in kinds:
        raise ConfigurationError(f"there is no task {name!r}{nearest(kind, kinds)}")
    return variant(name).make(name, settings)


LIFELONG = TaskVariant(
    name="mapf:lifelong",
    description="an agent that arrives has a new goal",
    make=_lifelong,
)

ONCE = TaskVariant(
    name="mapf:once",
    description="every agent has one goal",
    make=_once,
)

MAPF = TaskForm(
    name="mapf:WORLD",
    description="path finding of many agents on a grid: mapf:lifelong?size=10&agents=8, mapf:planned or mapf:once",
    family="worlds",
    make=_paths,
)
