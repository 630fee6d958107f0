"""Recorded episodes of `crooked:point` by a mixed behaviour whose actions jump: the data of `mo-decision-transformer`.

python -m hocket.methods.control.mo_decision_transformer.recorded --out maze.npz --episodes 100
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.methods.control.mo_decision_transformer.world import Array, CrookedCorridor, arrived, begun, moved, shown

SWERVE = 0.5
"""By how many radians an action is off the way, to either side."""


def recorded(episodes: int, key: Key) -> dict[str, NDArray[Any]]:
    """Rows of so many episodes, as `hocket record` writes them.

    Each episode has a skill, drawn evenly from 0.4 to 1: with that probability a decision goes along the way, swerved
    to the left or to the right by chance; else anywhere.
    """
    length, rng = CrookedCorridor().length, key.derive("behaviour").numpy()
    place = begun(key.derive("starts").numpy().integers(0, 2**31, episodes).tolist())
    skill, live = rng.uniform(0.4, 1.0, episodes), np.ones(episodes, bool)
    steps: list[dict[str, NDArray[Any]]] = []
    for time in range(length):
        along = swerved(shown(place), SWERVE * rng.choice([-1.0, 1.0], episodes))
        anywhere = rng.uniform(-1, 1, (episodes, 2))
        action = np.where((rng.random(episodes) < skill)[:, None], along, anywhere).astype(np.float32)
        before, place = place, moved(place, action.astype(np.float64))
        there = arrived(place)
        row = {"observations": before.astype(np.float32), "actions": action, "live": live.copy()}
        row |= {"rewards": np.full(episodes, -1.0, np.float32), "next_observations": place.astype(np.float32)}
        steps.append({**row, "terminations": there, "truncations": ~there & (time == length - 1)})
        live = live & ~there
    stacked = {name: np.stack([step[name] for step in steps], 1) for name in steps[0]}  # [N, T, ..]
    mask = stacked.pop("live")
    return {name: column[mask] for name, column in stacked.items()}


def swerved(action: Array, angle: Array) -> Array:
    """Actions `[B, 2]` turned by angles `[B]`, within the range."""
    cos, sin = np.cos(angle), np.sin(angle)
    turned = np.stack([cos * action[:, 0] - sin * action[:, 1], sin * action[:, 0] + cos * action[:, 1]], 1)
    clipped: Array = np.clip(turned, -1, 1)
    return clipped


def main() -> None:
    """Writes the rows."""
    parser = argparse.ArgumentParser(description="record episodes of crooked:point by a mixed behaviour")
    parser.add_argument("--out", required=True, help="the .npz file to write")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = recorded(options.episodes, Key.of(options.seed))
    np.savez_compressed(Path(options.out), **rows)  # type: ignore[arg-type]
    print(f"{len(rows['rewards'])} decisions of {options.episodes} episodes -> {options.out}")


if __name__ == "__main__":
    main()
