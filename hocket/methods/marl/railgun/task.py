"""Path finding seen from above, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hocket.methods.marl.railgun.whole_maps import WholeMap
from hocket.tasks.form import TaskVariant
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task
from hocket.types import Trajectory
from hocket.zoo.joint.walks import Walk

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 32,
    "rollout.samples": 1,
    "steps": 60,
    "credit.gamma": 0.97,
    "update.lr": 3e-3,
    "update.epochs": 1,
    "update.minibatches": 8,
    "network.hidden": [16, 24, 32],
}


@dataclass(frozen=True)
class WholeMapTask(JointTask):
    """A `JointTask` that states of an episode the indicators of `hocket.zoo.joint.walks` for one goal each."""

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        described = super().describe(trajectory)
        if not isinstance(self.world, WholeMap) or not trajectory.turns:
            return described
        (turn,), size = trajectory.turns, self.world.size
        if turn.joint is None or turn.end is None or turn.end.joint is None:
            return described
        states = np.concatenate([turn.joint, np.asarray(turn.end.joint)[None]])
        cells = np.rint(size * states.reshape(len(states), -1, 4)).astype(np.int64)
        place, goal = cells[..., :2], cells[..., 2:]
        action = np.take_along_axis(np.asarray(turn.action), place[:-1, :, 0] * size + place[:-1, :, 1], 1)
        walked, agents, limit = Walk(place, goal, action), self.world.count, self.world.length
        return {
            **described,
            "solved": float(walked.solved),
            "arrived": walked.arrived,
            "coordination": walked.coordination(),
            "cost": walked.sum_of_costs / (agents * limit),
            "makespan": walked.makespan / limit,
        }


def _whole(name: str, settings: Mapping[str, str]) -> JointTask:
    hints = {"size": int, "agents": int, "density": float, "length": int, "map": str}
    return native_task(name, settings, hints, WholeMap, _SUGGESTED, identified=False, form=WholeMapTask)


WHOLE = TaskVariant(
    name="mapf:whole",
    description="a commander sees the whole map and names a move for every cell; agents stay on their goals",
    make=_whole,
)
