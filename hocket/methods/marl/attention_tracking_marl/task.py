"""Targets to keep track of, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.methods.marl.attention_tracking_marl.tracking import Tracking
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task
from hocket.types import Trajectory

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 64,
    "steps": 30,
    "credit.gamma": 0.95,
    "update.lr": 1e-3,
    "network.hidden": [32, 32],
}


@dataclass(frozen=True)
class TrackingTask(JointTask):
    """A `JointTask` that states of an episode `tracked`, the mean share of targets that somebody observes."""

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        described = super().describe(trajectory)
        if not isinstance(self.world, Tracking) or not trajectory.turns:
            return described
        turn = trajectory.turns[0]
        if turn.joint is None or turn.end is None or turn.end.joint is None:
            return described
        states = np.concatenate([np.asarray(turn.joint)[1:], np.asarray(turn.end.joint)[None]])
        return {**described, "tracked": float(states[:, 3 : 4 * self.world.targets : 4].mean())}


def _tracking(name: str, settings: Mapping[str, str]) -> JointTask:
    if name != "track:targets":
        raise ConfigurationError(f"there is no task {name!r}; write track:targets")
    hints: dict[str, Any] = dict.fromkeys(("agents", "targets", "mask", "length"), int)
    hints |= dict.fromkeys(("side", "pace"), float) | {"together": bool}
    return native_task(name, settings, hints, Tracking, _SUGGESTED, identified=False, form=TrackingTask)


TRACK = TaskForm(
    name="track:WORLD",
    description="pursuers keep moving targets in sight: track:targets?agents=20&targets=20&mask=4",
    make=_tracking,
)
