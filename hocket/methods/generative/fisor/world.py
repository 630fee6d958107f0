"""A point with momentum, a hazard on its way, and records of bold and of careful drivers."""

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

PACE, THRUST = 0.1, 0.03
"""The highest speed along a dimension, and how much a full action changes it: to turn round takes seven decisions."""
HAZARD = 0.3
"""The radius of the hazard at (0, 0)."""
GOAL, NEAR = np.array([0.8, 0.0]), 0.15
RECORDS = Path(__file__).with_name("records.npz")
"""Of 80 episodes."""
SAFE, IN_HAZARD = 1, 2
"""Kinds of recorded decisions: what they led to."""


@dataclass(frozen=True)
class HazardCourse:
    """A point begins at the left, at rest, at a height of its own in each episode; the goal is right of the hazard.

    Seen are place and velocity; an action changes the velocity. A decision pays how much nearer it brings the goal, in
    units of the highest speed, less a quarter. The goal ends an episode, which is cut after `length` decisions. The
    hazard stops nothing: `violations` counts the decisions that lead into it. Scenarios are as in
    `hocket.tasks.gym.GymTask`. It stands in for the tasks of Safety-Gymnasium.
    """

    length: int = 40

    name: ClassVar[str] = "hazard:point"
    kind: ClassVar[Literal["control"]] = "control"
    leads: ClassVar[str] = "greedy"
    rewards: ClassVar[Sequence[Reward]] = ()
    observations: ClassVar[int] = 4
    actions: ClassVar[int] = 2
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigurationError(f"task {self.name}: length = {self.length}; at least 1")

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        seed = 2 * (number % 2**30) + (split == "eval")
        return Scenario(id=f"hazard/{seed}", seed=seed, metadata={"environment": "hazard"})

    def success(self, trajectory: Trajectory) -> float:
        """The return of the episode."""
        score = trajectory.scores.get("reward")
        return 0.0 if score is None else float(np.sum(np.asarray(score.value, dtype=np.float64)))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`violations`: the decisions that led into the hazard. `safe`: whether there were none."""
        if not trajectory.turns or trajectory.final_state is None:
            return {}
        passed = np.concatenate([np.asarray(trajectory.turns[0].observation)[1:], trajectory.final_state[None]])
        count = float(inside(passed.astype(np.float64)).sum())
        return {"violations": count, "safe": float(count == 0)}

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        """As for classic problems, with smaller networks; a store begins with the records."""
        settings = {**suggested(recipe, discrete=False), "network.hidden": [64, 64]}
        return settings if recipe.store is None else {**settings, "steps": 8, "store.data": str(RECORDS)}

    def make(self) -> HazardPoint:
        """Opens one environment."""
        return HazardPoint(self.length)


class HazardPoint:
    """One environment; `state` is `[4]`: place and velocity."""

    def __init__(self, length: int) -> None:
        self.length, self.time, self.state = length, 0, np.zeros(4)

    def reset(self, seed: int) -> NDArray[np.float32]:
        self.time, self.state = 0, begun([seed])[0]
        return self.state.astype(np.float32)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool]:
        before, self.state = self.state, moved(self.state[None], np.asarray(action, np.float64)[None])[0]
        self.time += 1
        there = bool(arrived(self.state[None])[0])
        reward = float(paid(before[None], self.state[None])[0])
        return self.state.astype(np.float32), reward, there, self.time >= self.length and not there

    def close(self) -> None:
        return


def begun(seeds: Sequence[int]) -> Array:
    """Where episodes of these seeds begin, `[B, 4]`."""
    heights = [Key.of(seed).derive("hazard").numpy().uniform(-0.4, 0.4) for seed in seeds]
    state = np.zeros((len(heights), 4))
    state[:, 0], state[:, 1] = -0.8, heights
    return state


def arrived(state: Array) -> NDArray[np.bool_]:
    """Whether states `[B, 4]` are at the goal, `[B]`."""
    near: NDArray[np.bool_] = np.linalg.norm(state[:, :2] - GOAL, axis=1) < NEAR
    return near


def inside(state: Array) -> NDArray[np.bool_]:
    """Whether states `[B, 4]` are in the hazard, `[B]`."""
    within: NDArray[np.bool_] = np.linalg.norm(state[:, :2], axis=1) < HAZARD
    return within


def moved(state: Array, action: Array) -> Array:
    """Where actions `[B, 2]` lead from states `[B, 4]`."""
    velocity = np.clip(state[:, 2:] + THRUST * np.clip(action, -1, 1), -PACE, PACE)
    place = np.clip(state[:, :2] + velocity, -1, 1)
    return np.concatenate([place, velocity], 1)


def paid(before: Array, after: Array) -> Array:
    """What decisions between states `[B, 4]` pay, `[B]`."""
    way: Array = np.linalg.norm(before[:, :2] - GOAL, axis=1) - np.linalg.norm(after[:, :2] - GOAL, axis=1)
    return way / PACE - 0.25


def driven(state: Array, height: Array) -> Array:
    """What drivers do at `[B, 4]` who pass the hazard at heights `[B]`, 0 for straight through; `[B, 2]`."""
    ahead = (state[:, 0] < 0.2) & (height != 0)
    aim = np.where(ahead[:, None], np.stack([np.maximum(state[:, 0] + 0.25, -0.3), height], 1), GOAL)
    way = aim - state[:, :2]
    wanted = PACE * way / np.maximum(np.linalg.norm(way, axis=1, keepdims=True), PACE)
    action: Array = np.clip((wanted - state[:, 2:]) / THRUST, -1, 1)
    return action


def records(episodes: int, key: Key) -> dict[str, NDArray[Any]]:
    """Rows of so many episodes as `hocket record` writes them, with kinds: half of the drivers go straight.

    One in four begins anywhere, at any velocity. All have shaky hands.
    """
    length, rng = HazardCourse().length, key.derive("drivers").numpy()
    state = begun(key.derive("starts").numpy().integers(0, 2**31, episodes).tolist())
    anywhere = np.concatenate([rng.uniform(-0.9, 0.9, (episodes, 2)), rng.uniform(-PACE, PACE, (episodes, 2))], 1)
    state = np.where(rng.random(episodes)[:, None] < 0.25, anywhere, state)
    height, live = rng.choice([0.0, 0.0, -0.55, 0.55], episodes), np.ones(episodes, bool)
    steps: list[dict[str, NDArray[Any]]] = []
    for time in range(length):
        action = np.clip(driven(state, height) + 0.5 * rng.normal(size=(episodes, 2)), -1, 1).astype(np.float32)
        before, state = state, moved(state, action.astype(np.float64))
        there = arrived(state)
        row: dict[str, NDArray[Any]] = {"observations": before.astype(np.float32), "actions": action}
        row |= {"rewards": paid(before, state).astype(np.float32), "next_observations": state.astype(np.float32)}
        row |= {"kinds": np.where(inside(state), IN_HAZARD, SAFE), "live": live.copy()}
        steps.append({**row, "terminations": there, "truncations": ~there & (time == length - 1)})
        live = live & ~there
    stacked = {name: np.stack([step[name] for step in steps], 1) for name in steps[0]}  # [N, T, ..]
    mask = stacked.pop("live")
    return {name: column[mask] for name, column in stacked.items()}


def main() -> None:
    """Writes records."""
    parser = argparse.ArgumentParser(description="records of bold and careful drivers of hazard:point")
    parser.add_argument("--out", required=True, help="the .npz file to write")
    parser.add_argument("--episodes", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = records(options.episodes, Key.of(options.seed))
    np.savez_compressed(Path(options.out), **rows)  # type: ignore[arg-type]
    share = float((rows["kinds"] == IN_HAZARD).mean())
    print(f"{len(rows['rewards'])} decisions of {options.episodes} episodes, {share:.0%} into the hazard")


def _hazard(name: str, settings: Mapping[str, str]) -> HazardCourse:
    if name != "hazard:point":
        raise ConfigurationError(f"there is no task {name!r}; choose hazard:point")
    return HazardCourse(**checked(name, settings, {"length": int}))


HAZARD_POINT = TaskForm(
    name="hazard:point",
    description="a point with momentum whose straight way leads through a hazard",
    make=_hazard,
)


if __name__ == "__main__":
    main()
