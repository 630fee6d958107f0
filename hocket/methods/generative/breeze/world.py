"""A point in a room with four goals, and records of a point that wanders without any."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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

STRIDE, NEAR = 0.15, 0.3
"""How far a full action goes along a dimension, and how near the goal pays."""
GOALS = {"northeast": (0.5, 0.5), "northwest": (-0.5, 0.5), "southeast": (0.5, -0.5), "southwest": (-0.5, -0.5)}
RECORDS = Path(__file__).with_name("records.npz")
"""Of 150 episodes."""
LABELLED = 1000
"""How many recorded states a task labels."""


@dataclass(frozen=True)
class GoalRoom:
    """A point begins anywhere in a room; every decision that ends near the goal pays 1.

    Seen is the place alone, not the goal. An episode is cut after `length` decisions. Scenarios are as in
    `hocket.tasks.gym.GymTask`.

    Attributes:
        goal: northeast, northwest, southeast or southwest.
    """

    goal: str = "northeast"
    length: int = 30

    name: ClassVar[str] = "goals:point"
    kind: ClassVar[Literal["control"]] = "control"
    leads: ClassVar[str] = "greedy"
    rewards: ClassVar[Sequence[Reward]] = ()
    observations: ClassVar[int] = 2
    actions: ClassVar[int] = 2
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise ConfigurationError(f"task {self.name}: goal = {self.goal}; choose {', '.join(GOALS)}")
        if self.length < 1:
            raise ConfigurationError(f"task {self.name}: length = {self.length}; at least 1")

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        seed = 2 * (number % 2**30) + (split == "eval")
        return Scenario(id=f"goals/{seed}", seed=seed, metadata={"environment": "goals"})

    def success(self, trajectory: Trajectory) -> float:
        """The return of the episode."""
        score = trajectory.scores.get("reward")
        return 0.0 if score is None else float(np.sum(np.asarray(score.value, dtype=np.float64)))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Nothing besides the return."""
        return {}

    def labelled(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Recorded states `[N, 2]`, and what this goal pays for reaching each, `[N]`."""
        with np.load(RECORDS) as rows:
            states = rows["next_observations"][:LABELLED]
        return states, paid(states.astype(np.float64), self.goal).astype(np.float32)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        """As for classic problems, with smaller networks; a store begins with the records."""
        settings = {**suggested(recipe, discrete=False), "network.hidden": [64, 64]}
        return settings if recipe.store is None else {**settings, "steps": 6, "store.data": str(RECORDS)}

    def make(self) -> GoalPoint:
        """Opens one environment."""
        return GoalPoint(self.goal, self.length)


class GoalPoint:
    """One environment; `place` is `[2]`."""

    def __init__(self, goal: str, length: int) -> None:
        self.goal, self.length, self.time, self.place = goal, length, 0, np.zeros(2)

    def reset(self, seed: int) -> NDArray[np.float32]:
        self.time, self.place = 0, begun([seed])[0]
        return self.place.astype(np.float32)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool]:
        self.place = moved(self.place[None], np.asarray(action, np.float64)[None])[0]
        self.time += 1
        return (
            self.place.astype(np.float32),
            float(paid(self.place[None], self.goal)[0]),
            False,
            self.time >= self.length,
        )

    def close(self) -> None:
        return


def begun(seeds: Sequence[int]) -> Array:
    """Where episodes of these seeds begin, `[B, 2]`."""
    return np.stack([Key.of(seed).derive("goals").numpy().uniform(-1, 1, 2) for seed in seeds])


def moved(place: Array, action: Array) -> Array:
    """Where actions lead from places, all `[B, 2]`."""
    after: Array = np.clip(place + STRIDE * np.clip(action, -1, 1), -1, 1)
    return after


def paid(place: Array, goal: str) -> Array:
    """What a goal pays at places `[B, 2]`, `[B]`."""
    near: Array = (np.linalg.norm(place - np.array(GOALS[goal]), axis=1) < NEAR).astype(np.float64)
    return near


def records(episodes: int, key: Key) -> dict[str, NDArray[Any]]:
    """Rows of so many episodes as `hocket record` writes them, without any reward.

    The point heads for a place anywhere in the room, with shaky hands, and changes its mind every tenth decision.
    """
    length, rng = GoalRoom().length, key.derive("wandering").numpy()
    place = rng.uniform(-1, 1, (episodes, 2))
    aim = rng.uniform(-1, 1, (episodes, 2))
    steps: list[dict[str, NDArray[Any]]] = []
    for time in range(length):
        aim = np.where(rng.random(episodes)[:, None] < 0.1, rng.uniform(-1, 1, (episodes, 2)), aim)
        action = np.clip((aim - place) / STRIDE, -1, 1) + 0.5 * rng.normal(size=(episodes, 2))
        action = np.clip(action, -1, 1).astype(np.float32)
        before, place = place, moved(place, action.astype(np.float64))
        over = np.full(episodes, time == length - 1)
        row: dict[str, NDArray[Any]] = {"observations": before.astype(np.float32), "actions": action}
        row |= {"rewards": np.zeros(episodes, np.float32), "next_observations": place.astype(np.float32)}
        steps.append({**row, "terminations": np.zeros(episodes, bool), "truncations": over})
    stacked = {name: np.stack([step[name] for step in steps], 1) for name in steps[0]}  # [N, T, ..]
    return {name: column.reshape(-1, *column.shape[2:]) for name, column in stacked.items()}


def main() -> None:
    """Writes records."""
    parser = argparse.ArgumentParser(description="records of a point that wanders in a room")
    parser.add_argument("--out", required=True, help="the .npz file to write")
    parser.add_argument("--episodes", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = records(options.episodes, Key.of(options.seed))
    np.savez_compressed(Path(options.out), **rows)  # type: ignore[arg-type]
    print(f"{len(rows['rewards'])} decisions of {options.episodes} episodes")


def _goals(name: str, settings: Mapping[str, str]) -> GoalRoom:
    if name != "goals:point":
        raise ConfigurationError(f"there is no task {name!r}; choose goals:point")
    return GoalRoom(**checked(name, settings, {"goal": str, "length": int}))


GOALS_POINT = TaskForm(
    name="goals:point",
    description="a point in a room with a goal that it does not see, after records of wandering",
    make=_goals,
)


if __name__ == "__main__":
    main()
