"""Discs on a floor in numpy: how near two come that walk straight on, and how people keep out of each other's way.

All functions take any leading dimensions, so many floors, or many commands on one floor, are one call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NOWHERE = 1e-12
"""A distance below which there is no direction, in metres."""


def unit(vector: Floats) -> Floats:
    """Vectors `[..., 2]` of length 1 in the same direction; 0 stays 0."""
    length = np.linalg.norm(vector, axis=-1, keepdims=True)
    found: Floats = np.where(length > NOWHERE, vector / np.maximum(length, NOWHERE), 0.0)
    return found


def turned(vector: Floats, degrees: float) -> Floats:
    """Vectors `[..., 2]`, turned to the left."""
    angle = np.deg2rad(degrees)
    x, y = vector[..., 0], vector[..., 1]
    return np.stack([np.cos(angle) * x - np.sin(angle) * y, np.sin(angle) * x + np.cos(angle) * y], -1)


def least_distances(place: Floats, velocity: Floats, seconds: float) -> Floats:
    """The least distance of every two points on straight ways `[..., n, 2]` at any time in `[0, seconds]`.

    `[..., n, n]` in metres, infinite on the diagonal. In closed form, so no two pass each other unseen however long the
    time is.
    """
    apart = place[..., :, None, :] - place[..., None, :, :]
    drift = velocity[..., :, None, :] - velocity[..., None, :, :]
    square = (drift * drift).sum(-1)
    best = np.where(square > NOWHERE, -(apart * drift).sum(-1) / np.maximum(square, NOWHERE), 0.0)
    when = np.clip(best, 0.0, seconds)[..., None]
    found: Floats = np.linalg.norm(apart + when * drift, axis=-1)
    n = place.shape[-2]
    found[..., np.arange(n), np.arange(n)] = np.inf
    return found


@dataclass(frozen=True)
class SocialForce:
    """People as Helbing and Molnar's social force model has them (Physical Review E 51, 1995), without walls and sight.

    `dv/dt = (v0 e - v) / relaxation + sum_j strength exp((2 radius - d_ij) / reach) n_ij`, with e the direction of the
    goal and n_ij that from the other to oneself; nobody is faster than 1.3 v0.

    Attributes:
        pace: v0, metres a second. relaxation: seconds. strength: metres a second squared. reach: metres.
        radius: of a disc, metres; all are alike.
    """

    pace: float = 1.0
    relaxation: float = 0.5
    strength: float = 3.0
    reach: float = 0.3
    radius: float = 0.3

    def push(self, place: Floats, felt: NDArray[np.bool_]) -> Floats:
        """What the others' nearness makes of everybody's velocity per second, `[..., n, 2]`.

        Args:
            place: `[..., n, 2]`. felt: who is felt by the others, `[..., n]`.
        """
        apart = place[..., :, None, :] - place[..., None, :, :]
        distance = np.linalg.norm(apart, axis=-1)
        size = self.strength * np.exp((2 * self.radius - distance) / self.reach) * felt[..., None, :]
        found: Floats = (size[..., None] * unit(apart)).sum(-2)
        return found

    def walked(self, place: Floats, velocity: Floats, goal: Floats, felt: NDArray[np.bool_], seconds: float) -> Floats:
        """The velocities `[..., n, 2]` after so many seconds of one step of Euler's."""
        wish = self.pace * unit(goal - place)
        after = velocity + seconds * ((wish - velocity) / self.relaxation + self.push(place, felt))
        speed = np.linalg.norm(after, axis=-1, keepdims=True)
        found: Floats = after * np.minimum(1.0, 1.3 * self.pace / np.maximum(speed, NOWHERE))
        return found
