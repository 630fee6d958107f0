"""The point that goes round a disc, as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.options import checked
from hocket.methods.generative.dppo.world import REACHED, astray
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.text import check_number
from hocket.types import Scenario, Trajectory


class RoundTheDisc:
    """Scenario n begins at a height of its own. Success is to reach the goal without touching the disc.

    Attributes:
        steps: denoising steps of an action. With 1 the controller is a Gaussian policy, whose mean is the mean of the
            demonstrated ways: through the disc.
    """

    kind: Any = "hocket.methods.generative.dppo.kind:AVOIDING"
    rewards: Sequence[Reward] = ()

    def __init__(self, steps: int = 5) -> None:
        if steps < 1:
            raise ConfigurationError(f"task round-the-disc: steps must be at least 1, not {steps}")
        self.steps = steps
        self.name = "round-the-disc" + (f"?steps={steps}" if steps != 5 else "")

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        return Scenario(f"round-the-disc/{split}/{number}", seed=2 * number + (split == "eval"))

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {"steps": 40, "curriculum.prompts": 16, "rollout.samples": 4}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`near`: the share of its places that are within a fifth of the demonstrated ways."""
        path = np.asarray(trajectory.final_state).reshape(-1, 2)
        return {"near": float((astray(path) < 0.2).mean())}

    def success(self, trajectory: Trajectory) -> float:
        return float(REACHED.get(trajectory, False))


def from_settings(name: str, settings: Mapping[str, str]) -> RoundTheDisc:
    """The task with these settings."""
    return RoundTheDisc(**checked(name, settings, {"steps": int}))


ROUND_THE_DISC = TaskForm(
    name="round-the-disc",
    description="a point goes round a disc by denoised moves, e.g. round-the-disc?steps=10",
    make=from_settings,
)
"""The task of DPPO."""
