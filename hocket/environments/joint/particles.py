"""Particle worlds: discs that push each other on a plane (Lowe et al., arXiv:1706.02275), in numpy.

The physics and numbers are those of mpe2 (MIT licence), without its drawing: equal moves give equal episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointEnvironment, Moved, Seat

Floats = NDArray[np.float64]

STEP, DAMPING, FORCE, SOFTNESS, PUSH, RADIUS = 0.1, 0.25, 100.0, 1e-3, 5.0, 0.15
"""Seconds of a step, the share of speed lost in it, how hard discs repel, how soft they are, what a move pushes with,
and how large an agent is."""

MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], np.float64)
"""Stay, left, right, down, up."""


@dataclass(frozen=True)
class Spread:
    """Cooperative navigation: N agents cover N landmarks without bumping into each other (`simple_spread_v3`).

    At every step all earn `-sum over landmarks of the distance of the nearest agent`, in the share `1 - local`, and
    each loses 1 per collision of its own, in the share `local`. An agent sees its velocity and position, and where
    landmarks and others are from there; then 2 zeros per other agent, upstream's silent words. The joint state is all
    positions, velocities and landmarks.

    Attributes:
        count: agents and landmarks. local: the share of an agent's own reward, in [0, 1]. length: steps of an episode,
            which a limit of time ends.
        hidden: landmarks are left out of what agents see, and only the joint state tells of them.
    """

    count: int = 3
    local: float = 0.5
    length: int = 25
    hidden: bool = False

    def __post_init__(self) -> None:
        if self.count < 1 or self.length < 1 or not 0 <= self.local <= 1:
            raise ConfigurationError(
                f"task mpe:spread needs agents and length of at least 1 and local in [0, 1], not {self.count}, "
                f"{self.length} and {self.local}"
            )

    @property
    def name(self) -> str:
        return "mpe:spread"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"agent_{number}" for number in range(self.count))

    @property
    def seats(self) -> tuple[Seat, ...]:
        landmarks = 0 if self.hidden else 2 * self.count
        return (Seat(4 + landmarks + 4 * (self.count - 1), len(MOVES)),) * self.count

    @property
    def joint(self) -> int:
        return 6 * self.count

    def open(self, width: int) -> JointEnvironment:
        return _Spread(self, width)


class _Spread(JointEnvironment):
    def __init__(self, world: Spread, width: int) -> None:
        self.world, count = world, world.count
        self.place, self.speed, self.landmark = (np.zeros((width, count, 2)) for _ in range(3))
        self.place += np.arange(count)[:, None]  # Idle copies are apart, so that nothing is divided by 0.
        self.time = np.zeros(width, np.int64)
        self.pairs = np.triu_indices(count, 1)
        self.others = [[other for other in range(count) if other != number] for number in range(count)]

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            drawn = drawn_from(seed).uniform(-1, 1, (2 * self.world.count, 2))
            self.place[slot], self.landmark[slot] = np.split(drawn, 2)
            self.speed[slot], self.time[slot] = 0.0, 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        force = PUSH * MOVES[np.stack(actions, 1)]
        one, other = self.pairs
        if len(one):
            gap = self.place[:, one] - self.place[:, other]
            apart = np.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2)
            depth = np.logaddexp(0, (2 * RADIUS - apart) / SOFTNESS) * SOFTNESS
            push = gap * (FORCE * depth / np.maximum(apart, 1e-300))[..., None]
            for pair in range(len(one)):
                force[:, one[pair]] += push[:, pair]
                force[:, other[pair]] -= push[:, pair]
        self.place = self.place + self.speed * STEP
        self.speed = self.speed * (1 - DAMPING) + force * STEP
        self.time = self.time + live
        over = np.repeat((self.time >= self.world.length)[:, None], self.world.count, 1)
        return Moved(self._rewards(), np.zeros_like(over), over)

    def _rewards(self) -> Floats:
        gap = self.place[:, :, None] - self.landmark[:, None]
        nearest = np.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2).min(1)
        covered = np.zeros(len(nearest))
        for landmark in range(self.world.count):
            covered -= nearest[:, landmark]
        bumps = np.zeros((len(nearest), self.world.count))
        one, other = self.pairs
        gap = self.place[:, one] - self.place[:, other]
        touching = np.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2) < 2 * RADIUS
        for pair in range(len(one)):
            bumps[:, one[pair]] -= touching[:, pair]
            bumps[:, other[pair]] -= touching[:, pair]
        return covered[:, None] * (1 - self.world.local) + bumps * self.world.local

    def seen(self) -> list[NDArray[np.float32]]:
        width, count = len(self.time), self.world.count
        silent = np.zeros((width, 2 * (count - 1)))
        found = []
        for number in range(count):
            here = self.place[:, number]
            marks = (self.landmark - here[:, None]).reshape(width, -1)
            near = (self.place[:, self.others[number]] - here[:, None]).reshape(width, -1)
            told = [self.speed[:, number], here, *(() if self.world.hidden else (marks,)), near, silent]
            found.append(np.concatenate(told, 1).astype(np.float32))
        return found

    def state(self) -> NDArray[np.float32]:
        parts = (self.place, self.speed, self.landmark)
        return np.concatenate([part.reshape(len(self.time), -1) for part in parts], 1).astype(np.float32)


def drawn_from(seed: int) -> np.random.Generator:
    """The generator that Gymnasium makes of a seed, so that seeds mean the same episode as upstream."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
