"""The room of pixels as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.core.options import checked
from hocket.methods.generative.wmpo.world import SIDE
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.text import check_number
from hocket.types import Scenario, Trajectory


class DoorRoom:
    """Scenario n is a room of its own: where the agent begins, the goal is, and the door in the wall between them."""

    name: str = "door-room"
    kind: Any = "hocket.methods.generative.wmpo.kind:ACTING_ON_PICTURES"
    rewards: Sequence[Reward] = ()

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        return Scenario(f"{self.name}/{split}/{number}", seed=2 * number + (split == "eval"))

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {"steps": 60, "curriculum.prompts": 16, "rollout.samples": 8, "update.lr": 4e-3}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`still`: the share of moves after which the picture is as before, such as those into the wall."""
        path = np.asarray(trajectory.final_state).reshape(-1, 3, SIDE, SIDE)
        return {"still": float((np.abs(path[1:] - path[:-1]).max((1, 2, 3)) < 0.5).mean())}

    def success(self, trajectory: Trajectory) -> float:
        return float(trajectory.scores["goal"].value)  # type: ignore[arg-type]


def from_settings(name: str, settings: Mapping[str, str]) -> DoorRoom:
    """The task; it has no settings."""
    checked(name, settings, {})
    return DoorRoom()


DOOR_ROOM = TaskForm(
    name="door-room",
    description="pictures of a room with a wall, whose door leads to the goal",
    make=from_settings,
)
"""The task of WMPO."""
