"""A point in the plane that has to go round a disc, and demonstrations of both ways."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.core.columns import InfoColumn
from hocket.core.keys import Key

REACHED = InfoColumn("reached", "Whether the point came to the goal.")
MOVES = 10
"""Moves of an episode at most."""
REACH = 0.4
"""The longest move; a longer one is cut to it."""
DISC, GOAL = 0.45, 0.2
"""Radii of the disc at (0, 0), in which an episode ends, and of the goal at (1, 0)."""
HEIGHT = 0.75
"""Half the height of the ellipse through start and goal on which demonstrations go, above or below the disc."""

Rows = NDArray[np.float32]


class Outcome(NamedTuple):
    """After a move of B points: where they are `[B, 2]`, and which reached the goal, and which the disc, `[B]`."""

    point: Rows
    reached: NDArray[np.bool_]
    struck: NDArray[np.bool_]


def begin(seed: int) -> Rows:
    """The first place of an episode, `[2]`."""
    return np.array([-1.0, Key.of(seed).derive("begin").numpy().uniform(-0.1, 0.1)], np.float32)


def moved(point: Rows, action: Rows) -> Outcome:
    """One move; the way to the new place may not cross the disc."""
    length = np.linalg.norm(action, axis=-1, keepdims=True)
    step = action * np.minimum(1.0, REACH / np.maximum(length, 1e-6))
    # The nearest place of the way to the centre of the disc.
    along = np.clip(-(point * step).sum(-1) / np.maximum(np.square(step).sum(-1), 1e-9), 0.0, 1.0)
    struck = np.linalg.norm(point + along[:, None] * step, axis=-1) < DISC
    after = (point + step).astype(np.float32)
    reached = ~struck & (np.linalg.norm(after - np.array([1.0, 0.0]), axis=-1) < GOAL)
    return Outcome(after, reached, struck)


def astray(point: NDArray[np.floating]) -> NDArray[np.float64]:
    """How far points `[..., 2]` are from the ellipse of the demonstrations, in multiples of its radius there."""
    radius: NDArray[np.float64] = np.hypot(point[..., 0], point[..., 1] / HEIGHT).astype(np.float64)
    return np.abs(radius - 1.0)


def demonstrations(key: Key, count: int = 400) -> tuple[Rows, Rows]:
    """Places and moves of `count` episodes, half of them above the disc, `[count * (MOVES - 1), 2]` each."""
    draws = key.numpy()
    side = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)[:, None]
    angle = np.linspace(np.pi, 0.0, MOVES)[None]
    path = np.stack([np.cos(angle) + 0 * side, side * HEIGHT * np.sin(angle)], -1)
    place = path + draws.normal(0.0, 0.05, path.shape)
    return (
        place[:, :-1].reshape(-1, 2).astype(np.float32),
        (path[:, 1:] - place[:, :-1]).reshape(-1, 2).astype(np.float32),
    )
