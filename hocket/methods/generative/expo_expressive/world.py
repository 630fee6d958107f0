"""A point that must pass a wall by one of two doors, and a person who shows both ways."""

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

STRIDE = 0.1
"""How far a full action goes along a dimension."""
DOORS, WIDE = (-0.5, 0.5), 0.15
"""Heights of the middles of the doors in the wall at x = 0, and half the width of each."""
GOAL, NEAR = np.array([0.8, 0.0]), 0.12
SHOWN = Path(__file__).with_name("demonstrations.npz")
"""Of 20 episodes."""
PACE, SHAKING = 0.6, 0.4
"""Of the person who shows the ways: the length of an action, and the deviation of the noise on it."""


@dataclass(frozen=True)
class TwoDoors:
    """A point begins at the left, at a height of its own in each episode, and must reach the goal at the right.

    Seen is the place. A step pays 0 and the goal 1, which ends the episode; it is cut after `length` steps. A move into
    the wall slides along it. Scenarios are as in `hocket.tasks.gym.GymTask`. It stands in for tasks of
    manipulation with demonstrations.
    """

    length: int = 50

    name: ClassVar[str] = "two-doors:point"
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
        return Scenario(id=f"two-doors/{seed}", seed=seed, metadata={"environment": "two-doors"})

    def success(self, trajectory: Trajectory) -> float:
        """Whether the goal was reached."""
        score = trajectory.scores.get("reward")
        return 0.0 if score is None else float(np.sum(np.asarray(score.value, dtype=np.float64)))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`decisions`: how many it took."""
        return {"decisions": float(trajectory.length)}

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        """As for classic problems, with smaller networks; a store begins with demonstrations, half of what it draws."""
        settings = {**suggested(recipe, discrete=False), "network.hidden": [64, 64], "curriculum.prompts": 4}
        if recipe.store is None:
            return settings
        return {**settings, "steps": 15, "update.lr": 1e-3, "store.data": f"{SHOWN}=0.5"}

    def make(self) -> DoorPoint:
        """Opens one environment."""
        return DoorPoint(self.length)


class DoorPoint:
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
        return self.place.astype(np.float32), float(there), there, self.time >= self.length and not there

    def close(self) -> None:
        return


def begun(seeds: Sequence[int]) -> Array:
    """Where episodes of these seeds begin, `[B, 2]`."""
    heights = [Key.of(seed).derive("two doors").numpy().uniform(-0.2, 0.2) for seed in seeds]
    return np.stack([np.full(len(heights), -0.8), heights], 1)


def arrived(place: Array) -> NDArray[np.bool_]:
    """Whether places `[B, 2]` are at the goal, `[B]`."""
    near: NDArray[np.bool_] = np.linalg.norm(place - GOAL, axis=1) < NEAR
    return near


def moved(place: Array, action: Array) -> Array:
    """Where actions lead from places, all `[B, 2]`."""
    move = STRIDE * np.clip(action, -1, 1)
    after = np.clip(place + move, -1, 1)
    crosses = (place[:, 0] < 0) != (after[:, 0] < 0)
    share = np.divide(-place[:, 0], move[:, 0], out=np.zeros(len(place)), where=crosses)
    height = place[:, 1] + share * move[:, 1]
    blocked = crosses & (np.abs(np.abs(height) - DOORS[1]) > WIDE)
    after[:, 0] = np.where(blocked, place[:, 0], after[:, 0])
    return after


def shown(place: Array, door: Array) -> Array:
    """The way by doors at heights `[B]` to the goal at `[B, 2]`: actions of length 1, `[B, 2]`."""
    left, near = place[:, 0] < 0, np.abs(place[:, 1] - door) < WIDE / 2
    before, through = (np.stack([np.full(len(place), x), door], 1) for x in (-0.15, 0.15))
    aim = np.where(left[:, None], np.where(near[:, None], through, before), GOAL)
    way = aim - place
    action: Array = way / np.maximum(np.linalg.norm(way, axis=1, keepdims=True), STRIDE)
    return action


def demonstrations(episodes: int, key: Key) -> dict[str, NDArray[Any]]:
    """Rows of so many episodes as `hocket record` writes them: slow, with shaky hands, by either door by chance."""
    length, rng = TwoDoors().length, key.derive("hands").numpy()
    place = begun(key.derive("starts").numpy().integers(0, 2**31, episodes).tolist())
    door, live = rng.choice(DOORS, episodes), np.ones(episodes, bool)
    steps: list[dict[str, NDArray[Any]]] = []
    for time in range(length):
        action = np.clip(PACE * shown(place, door) + SHAKING * rng.normal(size=place.shape), -1, 1).astype(np.float32)
        before, place = place, moved(place, action.astype(np.float64))
        there = arrived(place)
        row: dict[str, NDArray[Any]] = {"observations": before.astype(np.float32), "actions": action}
        row |= {"rewards": there.astype(np.float32), "next_observations": place.astype(np.float32)}
        row |= {"terminations": there, "truncations": ~there & (time == length - 1), "live": live.copy()}
        steps.append(row)
        live = live & ~there
    stacked = {name: np.stack([step[name] for step in steps], 1) for name in steps[0]}  # [N, T, ..]
    mask = stacked.pop("live")
    return {name: column[mask] for name, column in stacked.items()}


def main() -> None:
    """Writes demonstrations."""
    parser = argparse.ArgumentParser(description="demonstrations of two-doors:point by both doors")
    parser.add_argument("--out", required=True, help="the .npz file to write")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = demonstrations(options.episodes, Key.of(options.seed))
    np.savez_compressed(Path(options.out), **rows)  # type: ignore[arg-type]
    reached = int(rows["terminations"].sum())
    print(f"{len(rows['rewards'])} decisions of {options.episodes} episodes, {reached} to the goal -> {options.out}")


def _two_doors(name: str, settings: Mapping[str, str]) -> TwoDoors:
    if name != "two-doors:point":
        raise ConfigurationError(f"there is no task {name!r}; choose two-doors:point")
    return TwoDoors(**checked(name, settings, {"length": int}))


TWO_DOORS = TaskForm(
    name="two-doors:point",
    description="a point that must pass a wall by one of two doors, as a person has shown",
    make=_two_doors,
)


if __name__ == "__main__":
    main()
