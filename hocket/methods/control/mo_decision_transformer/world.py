"""A point in a crooked corridor: two walls with gates at opposite ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.gym import suggested
from hocket.types import Scenario, Trajectory

Array = NDArray[np.float64]

STRIDE = 0.15
"""How far a full action goes along a dimension."""
WALLS = ((-0.33, -1.0, 0.2), (0.33, -0.2, 1.0))
"""Where each stands, and from where to where: the first is open at the top, the second at the bottom."""
GOAL, NEAR = np.array([0.8, 0.8]), 0.15


@dataclass(frozen=True)
class CrookedCorridor:
    """A point begins at the left, at a height of its own in each episode, and must pass both gates to the goal.

    Seen is the place. Every step pays -1, so a return is minus the steps. The goal ends the episode, which is cut after
    `length` steps. A move into a wall slides along it. Scenarios are as in `hocket.tasks.gym.GymTask`.
    """

    length: int = 80

    name: ClassVar[str] = "crooked:point"
    kind: ClassVar[Literal["control"]] = "control"
    leads: ClassVar[str] = "greedy"
    rewards: ClassVar[Sequence[Reward]] = ()
    observations: ClassVar[int] = 2
    actions: ClassVar[int] = 2
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigurationError(f"task {self.name}: length = {self.length}; at least 1")

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        seed = 2 * (number % 2**30) + (split == "eval")
        return Scenario(id=f"point/{seed}", seed=seed, metadata={"environment": "point"})

    def success(self, trajectory: Trajectory) -> float:
        """The return of the episode."""
        score = trajectory.scores.get("reward")
        return 0.0 if score is None else float(np.sum(np.asarray(score.value, dtype=np.float64)))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`truncated`: whether the goal was not reached in time."""
        return {"truncated": float(trajectory.truncated)}

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        """As for classic problems, with smaller networks."""
        return {**suggested(recipe, discrete=False), "network.hidden": [32, 32], "steps": 10}

    def make(self) -> CrookedPoint:
        """Opens one environment."""
        return CrookedPoint(self.length)


class CrookedPoint:
    """One environment; `place` is `[2]`."""

    def __init__(self, length: int) -> None:
        self.length, self.time, self.place = length, 0, np.zeros(2)

    def reset(self, seed: int) -> NDArray[np.float32]:
        self.time, self.place = 0, begun([seed])[0]
        return self.place.astype(np.float32)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool]:
        self.place = moved(self.place[None], np.asarray(action, np.float64)[None])[0]
        self.time += 1
        there = bool(arrived(self.place[None])[0])
        return self.place.astype(np.float32), -1.0, there, self.time >= self.length and not there

    def close(self) -> None:
        return


def begun(seeds: Sequence[int]) -> Array:
    """Where episodes of these seeds begin, `[B, 2]`."""
    heights = [Key.of(seed).derive("crooked").numpy().uniform(-0.9, 0.9) for seed in seeds]
    return np.stack([np.full(len(heights), -0.8), heights], 1)


def arrived(place: Array) -> NDArray[np.bool_]:
    """Whether places `[B, 2]` are at the goal, `[B]`."""
    near: NDArray[np.bool_] = np.linalg.norm(place - GOAL, axis=1) < NEAR
    return near


def moved(place: Array, action: Array) -> Array:
    """Where actions lead from places, all `[B, 2]`."""
    after = np.clip(place + STRIDE * np.clip(action, -1, 1), -1, 1)
    after[:, 0] = np.where(_blocked(place, after), place[:, 0], after[:, 0])
    return after


def _blocked(place: Array, after: Array) -> NDArray[np.bool_]:
    """Whether a wall is between two places `[B, 2]`, `[B]`."""
    result = np.zeros(len(place), bool)
    for wall, low, high in WALLS:
        crosses = (place[:, 0] < wall) != (after[:, 0] < wall)
        way = after[:, 0] - place[:, 0]
        share = np.divide(wall - place[:, 0], way, out=np.zeros(len(place)), where=crosses)
        height = place[:, 1] + share * (after[:, 1] - place[:, 1])
        result |= crosses & (height >= low) & (height <= high)
    return result


def shown(place: Array) -> Array:
    """The way to the goal at `[B, 2]`: through the middle of each gate; `[B, 2]`, of which no number exceeds 1."""
    aims = np.array([[-0.23, 0.6], [0.43, -0.6], GOAL])
    stage = (place[:, 0] >= WALLS[0][0]).astype(int) + (place[:, 0] >= WALLS[1][0])
    way = aims[stage] - place
    action: Array = way / np.maximum(np.abs(way).max(1, keepdims=True), STRIDE)
    return action


def _crooked(name: str, settings: Mapping[str, str]) -> CrookedCorridor:
    if name != "crooked:point":
        raise ConfigurationError(f"there is no task {name!r}; choose crooked:point")
    return CrookedCorridor(**checked(name, settings, {"length": int}))


CROOKED = TaskForm(
    name="crooked:point",
    description="a point that must pass two gates at opposite ends of a corridor, at a cost for every step",
    make=_crooked,
)
