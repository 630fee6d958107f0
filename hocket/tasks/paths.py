"""Path finding as tasks: joint worlds whose episodes are measured as those of POGEMA are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hocket.agents.environments.joint.once import OncePaths
from hocket.agents.environments.joint.paths import LifelongPaths
from hocket.agents.environments.joint.walks import walk
from hocket.tasks.joint import JointTask
from hocket.types import Trajectory


@dataclass(frozen=True)
class PathsTask(JointTask):
    """A `JointTask` that tells of an episode the indicators of `hocket.agents.environments.joint.walks`, all in [0, 1].

    Throughput is an agent's; `cost`, the mean of the agents' costs, and `makespan` are shares of the limit of steps. Of
    worlds made around path finding, whose joint states may tell something else, it tells what any task tells.
    """

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        found = super().describe(trajectory)
        if not isinstance(self.world, LifelongPaths):
            return found
        by_name = {turn.agent: turn for turn in trajectory.turns}
        if set(by_name) != set(self.world.agents):
            return found
        seen = walk([by_name[agent] for agent in self.world.agents], self.world.size)
        if seen is None:
            return found
        found = {**found, "coordination": seen.coordination()}
        agents, limit = len(self.world.agents), self.world.length
        if not isinstance(self.world, OncePaths):
            return {**found, "throughput": seen.throughput() / agents}
        costs = {"cost": seen.sum_of_costs / (agents * limit), "makespan": seen.makespan / limit}
        return {**found, "solved": float(seen.solved), "arrived": seen.arrived, **costs}
