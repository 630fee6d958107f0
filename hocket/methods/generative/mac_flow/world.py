"""Two points that are paid where both are at one of two meeting places, and a script that shows both."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.methods.generative.mac_flow.records import RecordedTeams
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask

Array = NDArray[np.float64]

STRIDE = 0.3
"""How far a full action goes along a dimension."""
PLACES, NEAR = np.array([[0.0, -0.6], [0.0, 0.6]]), 0.25
"""The meeting places, and how near a point must be."""
WORTH = np.array([0.5, 1.0])
"""What a moment at each pays, in shares of an episode."""
PACE, SHAKING = 0.6, 0.3
"""Of the script: the length of an action, and the deviation of the noise on it."""
RECORDS = Path(__file__).with_name("records.npz")
"""Of 200 episodes."""


@dataclass(frozen=True)
class Meeting:
    """Two points begin left and right, at heights of their own, and must meet at one of two places.

    A moment near the same place pays both 1 / `length` at the upper one, half as much at the lower; others pay 0. An
    episode is cut after `length`. Each sees its own place and the other's. The joint state is both places.
    """

    length: int = 8

    name: ClassVar[str] = "meeting:pair"
    agents: ClassVar[tuple[str, ...]] = ("agent_0", "agent_1")
    seats: ClassVar[tuple[Seat, ...]] = (Seat(4, 2, discrete=False),) * 2
    joint: ClassVar[int] = 4

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigurationError(f"task {self.name}: length = {self.length}; at least 1")

    def open(self, width: int) -> JointEnvironment:
        return _Points(self, width)


class _Points(JointEnvironment):
    """`place` is `[B, 2, 2]`: of each copy and point."""

    def __init__(self, world: Meeting, width: int) -> None:
        self.world, self.place, self.time = world, np.zeros((width, 2, 2)), np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        self.place[list(slots)], self.time[list(slots)] = begun(seeds), 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        after = moved(self.place, np.stack(actions, 1).astype(np.float64))
        self.place = np.where(live[:, None, None], after, self.place)
        self.time = self.time + live
        paid = np.repeat(worth(self.place)[:, None] / self.world.length, 2, 1)
        over = np.repeat((self.time >= self.world.length)[:, None], 2, 1)
        return Moved(paid, np.zeros_like(over), over)

    def seen(self) -> list[NDArray[np.float32]]:
        return sights(self.place)

    def state(self) -> NDArray[np.float32]:
        return self.place.reshape(-1, 4).astype(np.float32)


def begun(seeds: Sequence[int]) -> Array:
    """Where the points begin in episodes of these seeds, `[B, 2, 2]`."""
    heights = [Key.of(seed).derive("meeting").numpy().uniform(-0.2, 0.2, 2) for seed in seeds]
    place = np.zeros((len(heights), 2, 2))
    place[:, 0, 0], place[:, 1, 0], place[:, :, 1] = -0.6, 0.6, np.stack(heights)
    return place


def moved(place: Array, action: Array) -> Array:
    """Where actions lead from places, all `[B, 2, 2]`."""
    after: Array = np.clip(place + STRIDE * np.clip(action, -1, 1), -1, 1)
    return after


def worth(place: Array) -> Array:
    """What a moment at places `[B, 2, 2]` is worth, `[B]`."""
    near = np.linalg.norm(place[:, :, None] - PLACES, axis=-1) < NEAR
    paid: Array = near.all(1) @ WORTH
    return paid


def sights(place: Array) -> list[NDArray[np.float32]]:
    """What each point sees, `[B, 4]`."""
    return [place[:, order].reshape(-1, 4).astype(np.float32) for order in ([0, 1], [1, 0])]


def shown(place: Array, choice: NDArray[np.int64]) -> Array:
    """The way of both points `[B, 2, 2]` to the meeting places of these numbers `[B]`, of length 1 at most."""
    way = PLACES[choice][:, None] - place
    action: Array = way / np.maximum(np.linalg.norm(way, axis=-1, keepdims=True), STRIDE)
    return action


def records(episodes: int, key: Key) -> dict[str, NDArray[Any]]:
    """Moments of so many episodes, in the format of `hocket.methods.generative.mac_flow.records`.

    Each pair goes to either place by chance, slowly and with shaky hands.
    """
    length, rng = Meeting().length, key.derive("hands").numpy()
    place = begun(key.derive("starts").numpy().integers(0, 2**31, episodes).tolist())
    choice = rng.integers(0, 2, episodes)
    steps: list[dict[str, NDArray[Any]]] = []
    for time in range(length):
        action = np.clip(PACE * shown(place, choice) + SHAKING * rng.normal(size=place.shape), -1, 1).astype(np.float32)
        before, place = place, moved(place, action.astype(np.float64))
        row: dict[str, NDArray[Any]] = {"observations": _numbered(before), "actions": action}
        row["rewards"] = np.repeat(worth(place)[:, None] / length, 2, 1)
        row["next_observations"] = _numbered(place)
        row["terminations"] = np.zeros(episodes, bool)
        steps.append({**row, "truncations": np.full(episodes, time == length - 1)})
    return {name: np.concatenate(np.stack([step[name] for step in steps], 1)) for name in steps[0]}


def _numbered(place: Array) -> NDArray[np.float32]:
    """What both points see, `[B, 2, 6]`, with their one-hot numbers."""
    numbers = np.broadcast_to(np.eye(2, dtype=np.float32), (len(place), 2, 2))
    return np.concatenate([np.stack(sights(place), 1), numbers], 2)


@dataclass(frozen=True)
class MeetingTask(JointTask):
    """Meetings; recipes that learn from moments of a team begin with the records."""

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        settings = {**super().suggest(recipe), "network.hidden": [64, 64], "network.activation": "relu"}
        if not isinstance(recipe.store, RecordedTeams):
            return settings
        return {**settings, "steps": 8, "update.lr": 1e-3, "store.data": str(RECORDS)}


def main() -> None:
    """Writes records."""
    parser = argparse.ArgumentParser(description="records of pairs that meet at either place of meeting:pair")
    parser.add_argument("--out", required=True, help="the .npz file to write")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = records(options.episodes, Key.of(options.seed))
    np.savez_compressed(Path(options.out), **rows)  # type: ignore[arg-type]
    earned = float(rows["rewards"][:, 0].sum()) / options.episodes
    print(f"{len(rows['rewards'])} moments of {options.episodes} episodes, {earned:.2f} earned in each")


def _meeting(name: str, settings: Mapping[str, str]) -> MeetingTask:
    if name != "meeting:pair":
        raise ConfigurationError(f"there is no task {name!r}; choose meeting:pair")
    return MeetingTask(Meeting(**checked(name, settings, {"length": int})))


MEETING = TaskForm(
    name="meeting:pair",
    description="two points that must meet at one of two places, as records show",
    make=_meeting,
)


if __name__ == "__main__":
    main()
