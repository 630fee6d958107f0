"""Two fingers in a vertical plane that grip an object and move it as a reference says, which knows no forces.

A hand has a height, an opening and a tilt. Each of them follows its target with a lag. A target is that of the
reference, in which the fingers just touch the object, plus all residual actions so far. Fingers closer than the object
is wide press on it,

    N = k max(width - opening, 0),   F = 2 mu N,   f = (m (v' - v) / dt + m g,  (I (w' - w) / dt + m g e) / r),

and the object takes the hand's speeds v' and w' if the force f, along the fingers and around the middle, is within F;
else the force has that direction and the size F, and the object slips. e is how far its centre of mass is off its
middle, r half its width. Too hard a press breaks it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

Array = NDArray[np.float64]

LENGTH, STEP = 32, 0.05
"""Moments of an episode, and how long one is in seconds."""

GRASP = 8
"""The moments in which the fingers close before the object moves."""

GRAVITY, FRICTION, STIFFNESS = 9.81, 0.6, 1000.0
"""In m/s^2, without unit, and in N/m."""

LAG = 0.6
"""The share of the way to its target that each part of a hand goes in a moment."""

RESIDUAL = np.array([0.004, 0.0015, 0.05])
"""What a full action adds to the targets of height (m), opening (m) and tilt (rad)."""

REACH = 0.05
"""How far from the object's height fingers may be and still touch it, in m."""

STRONGEST = 22.0
"""The force N at which an object breaks, in newtons."""

MASS, WIDTH, OFFSET = (0.7, 1.2), (0.04, 0.08), 0.01
"""The ranges of an object's mass (kg) and width (m), and how far its centre of mass is off its middle at most (m)."""

MIDDLE = np.array([sum(MASS) / 2, sum(WIDTH) / 2, 0])
HALF = np.array([(MASS[1] - MASS[0]) / 2, (WIDTH[1] - WIDTH[0]) / 2, OFFSET])
"""The middle and half the range of each, by which they are scaled."""

NEAR = np.array([0.05, 0.4, 0.02, 0.02, 0.4])
"""The scale of the error of the object's height and angle, and of the hand's height, opening and tilt."""

ON_OBJECT = 0.7
"""The weight of the object's part in the reward."""

TRACKED = (0.02, 0.15)
"""The largest mean errors of height (m) and angle (rad) of a reference that counts as tracked."""


def smooth(share: Array) -> Array:
    """A step from 0 to 1 of least jerk, flat outside."""
    share = np.clip(share, 0, 1)
    return np.asarray(share**3 * (10 - 15 * share + 6 * share**2), np.float64)


@dataclass(frozen=True, eq=False)
class Reference:
    """What is to be tracked: `path` `[LENGTH + 1, 3]` has the height, opening and tilt of the hand at each moment.

    The object is to have the same height, and the tilt as its angle. `thing` has its mass, width and offset `[3]`.
    """

    path: Array
    thing: Array


@functools.lru_cache(maxsize=4096)
def reference(seed: int) -> Reference:
    """The reference of a seed: the fingers close, the object rises and turns twice."""
    draw = Key.of(seed).derive("reference").numpy()
    mass, width = draw.uniform(*MASS), draw.uniform(*WIDTH)
    offset = draw.uniform(-OFFSET, OFFSET)
    time = np.arange(LENGTH + 1.0)
    middle = draw.integers(GRASP + 8, LENGTH - 6)
    heights, tilts = draw.uniform(0.06, 0.25, 2), draw.uniform(-0.6, 0.6, 2)
    first, second = smooth((time - GRASP) / (middle - GRASP)), smooth((time - middle) / (LENGTH - middle))
    path = np.stack(
        [
            heights[0] * first + (heights[1] - heights[0]) * second,
            width + 0.03 * (1 - smooth(time / GRASP)),
            tilts[0] * first + (tilts[1] - tilts[0]) * second,
        ],
        1,
    )
    return Reference(path, np.array([mass, width, offset]))


@dataclass(frozen=True)
class Grip:
    """One object and one reference for each episode; see the module. The return is at most 1.

    Seen are the hand, the object, the residuals so far, the reference at three moments, the object's mass, width and
    offset, and the time.

    Attributes:
        references: how many there are in training, all with seeds of their own; evaluation has others without end.
        gravity: the share of gravity that acts; an easier version has less.
    """

    references: int = 32
    gravity: float = 1.0

    def __post_init__(self) -> None:
        if self.references < 1 or not 0 < self.gravity <= 1:
            raise ConfigurationError(
                f"task grip needs at least 1 of references and a share of gravity in (0, 1], not {self.references} and "
                f"{self.gravity}"
            )

    @property
    def name(self) -> str:
        return "grip"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("hand",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(23, 3, discrete=False),)

    @property
    def joint(self) -> int:
        return 0

    def open(self, width: int) -> Hands:
        return Hands(self, width)

    def number(self, seed: int) -> int:
        """The seed of the reference of an episode: even seeds are of training."""
        return seed if seed % 2 else seed % (2 * self.references)


class Hands(JointEnvironment):
    """The copies: paths `[B, LENGTH + 1, 3]`, things `[B, 3]`; hands, their speeds and residuals `[B, 3]`; objects
    `[B, 2]` and their speeds; errors summed over the time that an object is to move, `[B, 2]`."""

    def __init__(self, world: Grip, width: int) -> None:
        self.world = world
        self.path, self.thing = np.zeros((width, LENGTH + 1, 3)), np.ones((width, 3))
        self.hand, self.residual = np.zeros((width, 3)), np.zeros((width, 3))
        self.place, self.speed = np.zeros((width, 2)), np.zeros((width, 2))
        self.time, self.error = np.zeros(width, np.int64), np.zeros((width, 2))

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        places = list(slots)
        drawn = [reference(self.world.number(seed)) for seed in seeds]
        self.path[places] = [each.path for each in drawn]
        self.thing[places] = [each.thing for each in drawn]
        self.hand[places] = self.path[places, 0]
        for part in (self.residual, self.place, self.speed, self.time, self.error):
            part[places] = 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        rows = np.arange(len(live))
        before = [part.copy() for part in (self.hand, self.residual, self.place, self.speed, self.error)]
        self.residual = self.residual + RESIDUAL * np.clip(np.asarray(actions[0], np.float64), -1, 1)
        self.time = np.minimum(self.time + live, LENGTH)
        wanted = self.path[rows, self.time]
        hand = self.hand + LAG * (wanted + self.residual - self.hand)
        press = STIFFNESS * np.maximum(self.thing[:, 1] - hand[:, 1], 0)
        self._drag((hand - self.hand)[:, [0, 2]] / STEP, hand[:, 0], press)
        self.hand = hand
        off = np.abs(np.concatenate([self.place - wanted[:, [0, 2]], hand - wanted], 1))
        self.error = self.error + off[:, :2] * (self.time > GRASP)[:, None] / (LENGTH - GRASP)
        for part, old in zip((self.hand, self.residual, self.place, self.speed, self.error), before, strict=True):
            part[~live] = old[~live]
        near = off / NEAR
        reward = ON_OBJECT * np.exp(-near[:, :2].sum(1)) + (1 - ON_OBJECT) * np.exp(-near[:, 2:].sum(1))
        broken = press > STRONGEST
        self.error[broken & live] = np.inf
        over = (self.time >= LENGTH) & ~broken
        return Moved((np.where(broken, 0, reward) / LENGTH)[:, None], broken[:, None], over[:, None])

    def _drag(self, speed: Array, height: Array, press: Array) -> None:
        """Moves the objects by friction, gravity and the table, where the hand goes at `[B, 2]`."""
        mass, width, offset = self.thing.T
        radius, inertia = width / 2, mass * width**2 / 6
        weight = mass * GRAVITY * self.world.gravity
        touched = np.abs(height - self.place[:, 0]) < REACH
        most = 2 * FRICTION * press * touched
        pull = (speed - self.speed) / STEP * np.stack([mass, inertia], 1) + np.stack([weight, weight * offset], 1)
        force = pull / np.stack([np.ones_like(radius), radius], 1)
        force *= np.minimum(1, most / np.maximum(np.linalg.norm(force, axis=1), 1e-12))[:, None]
        lift = force[:, 0] - weight
        turn = force[:, 1] * radius - weight * offset
        self.speed = self.speed + STEP * np.stack([lift / mass, turn / inertia], 1)
        self.place = self.place + STEP * self.speed
        lying = self.place[:, 0] <= 0
        self.place[lying], self.speed[lying] = 0, 0

    def seen(self) -> Sequence[NDArray[np.float32]]:
        rows = np.arange(len(self.time))
        ahead = [self.path[rows, np.minimum(self.time + later, LENGTH)] for later in (1, 3)]
        width = self.thing[:, 1]
        shift = np.stack([np.zeros_like(width), width, np.zeros_like(width)], 1)
        scale = np.array([10.0, 50.0, 2.0])
        parts = [
            scale * (self.hand - shift),
            self.place * [10, 2],
            self.speed * [2, 0.5],
            self.residual * scale,
            *((each - shift) * scale for each in ahead),
            (self.hand[:, [0, 2]] - self.place) * [30, 3],
            (self.thing - MIDDLE) / HALF,
            (self.time / LENGTH)[:, None] * [1, 0] + [0, 1] * (self.time >= GRASP)[:, None],
        ]
        return (np.concatenate(parts, 1).astype(np.float32),)


_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 32,
    "rollout.samples": 1,
    "steps": 40,
    "credit.gamma": 0.95,
    "credit.lam": 0.95,
    "update.lr": 1.5e-3,
    "update.epochs": 6,
    "update.minibatches": 4,
}


def _grip(name: str, settings: Mapping[str, str]) -> JointTask:
    return native_task(name, settings, {"references": int, "gravity": float}, Grip, _SUGGESTED)


GRIP = TaskForm(
    name="grip",
    description="two fingers that grip an object and move it as a reference says, which knows no forces",
    make=_grip,
)
