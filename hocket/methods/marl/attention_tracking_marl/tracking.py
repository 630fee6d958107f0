"""Pursuers that keep moving targets in sight: a plane, sectors of view, and a Kalman filter that they have in common.

Motion, sights, pay and numbers are those of the authors' setTracking-v0, but for what `Tracking` says is ours.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.methods.marl.attention_tracking_marl.network import TargetRows
from hocket.zoo.joint.particles import drawn_from

Floats = NDArray[np.float64]

PERIOD = 0.5
"""Seconds of a step."""

ACTIONS: Floats = np.array(list(itertools.product((2.0, 1.33, 0.67, 0.0), (np.pi / 2, 0.0, -np.pi / 2))))
"""Speeds, in metres a second, and turns, in radians a second."""

REACH, VIEW, BLUR = 10.0, np.pi / 2, 0.2
"""How far a pursuer sees, in metres, within which angle, and the deviation of what it measures along an axis."""

FASTEST, JOLT = 2.0, 0.1
"""The largest speed of a target along an axis, and the density of its noise, which the filter knows."""

DOUBT, ROW = 30.0, 7
"""The variance of a belief at first, and numbers of a row: see `Tracking`."""


@dataclass(frozen=True)
class Tracking:
    """A team of pursuers that keeps track of targets, as many as `targets`, in a square field.

    A pursuer chooses a speed and a turn (`ACTIONS`). It observes a target within `REACH` and half of `VIEW` to either
    side. A Kalman filter holds a belief of every target's place and velocity, which all share. At every step everybody
    earns `-0.1` times the mean over targets of the log-determinant of the belief's covariance.

    A pursuer sees neither itself nor the others but a row for each target, as believed: distance over `REACH`, sine and
    cosine of the bearing, how fast both change (over 3 m/s, and radians a second over pi, cut off at 3), the
    log-determinant over 10, and whether this pursuer observes it. With a `mask` it sees the rows of so many targets
    alone, those nearest as believed. The joint state is every target's place over `REACH`, log-determinant over 10 and
    whether anybody observes it, then every pursuer's place over `REACH` and heading over pi.

    Ours are: what is measured is a place, with equal noise along both axes, in place of range and bearing; several
    observers measure at once; a target's noise is a hundred times theirs, so that whoever is out of sight is soon lost,
    and the filter knows it; targets start with a speed of up to `pace` in any direction and are turned back by
    borders, where pursuers stop; nobody keeps a margin. A target begins 5 to 10 metres from some pursuer, and is
    believed to stand up to 5 metres from where it is.

    Attributes:
        count: pursuers. mask: 0 for none. length: steps. side: of the field in metres; 0 is 15 metres times the root of
            the number of targets. pace: metres a second. together: whether pursuers begin at one place, with headings
            of their own; else they begin anywhere.
    """

    count: int = 4
    targets: int = 4
    mask: int = 0
    length: int = 40
    side: float = 0.0
    pace: float = 1.0
    together: bool = False

    leads = "sampled"

    def __post_init__(self) -> None:
        if min(self.count, self.targets, self.length) < 1 or self.mask < 0:
            raise ConfigurationError(
                f"task track:targets needs agents, targets and length of at least 1 and a mask of at least 0, not "
                f"{self.count}, {self.targets}, {self.length} and {self.mask}"
            )
        if self.side < 0 or not 0 <= self.pace <= FASTEST:
            raise ConfigurationError(
                f"task track:targets needs a side of at least 0 and a pace in [0, {FASTEST:g}], not {self.side} and "
                f"{self.pace}"
            )

    @property
    def name(self) -> str:
        return "track:targets"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"pursuer_{number}" for number in range(self.count))

    @property
    def rows(self) -> int:
        """How many targets a pursuer is shown."""
        return min(self.mask or self.targets, self.targets)

    @property
    def half(self) -> float:
        """Half the side of the field."""
        return (self.side or 15.0 * self.targets**0.5) / 2

    @property
    def seats(self) -> tuple[Seat, ...]:
        sight = TargetRows(self.rows, ROW, len(ACTIONS))
        return (Seat(self.rows * ROW, len(ACTIONS), sight_form=sight),) * self.count

    @property
    def joint(self) -> int:
        return 4 * self.targets + 3 * self.count

    def open(self, width: int) -> JointEnvironment:
        return Chase(self, width)


class Chase(JointEnvironment):
    """B copies: pursuers' `place` `[B, n, 2]` and `heading` `[B, n]`, targets `[B, m, 2]`, beliefs likewise.

    The filter's covariance is the same along both axes, and nothing between them: `cover` `[B, m, 2, 2]`, of place and
    velocity along one.
    """

    fixed = frozenset({"onward", "jolts", "spread"})

    def __init__(self, world: Tracking, width: int) -> None:
        self.world, n, m = world, world.count, world.targets
        self.place, self.heading = np.zeros((width, n, 2)), np.zeros((width, n))
        self.velocity, self.turning = np.zeros((width, n, 2)), np.zeros((width, n))
        self.target, self.speed = np.zeros((width, m, 2)), np.zeros((width, m, 2))
        self.belief, self.drift = np.zeros((width, m, 2)), np.zeros((width, m, 2))
        self.cover = np.tile(DOUBT * np.eye(2), (width, m, 1, 1))
        self.observed = np.zeros((width, n, m), bool)
        self.noise, self.time = np.zeros((width, world.length, 3, m, 2)), np.zeros(width, np.int64)
        self.onward = np.array([[1.0, PERIOD], [0.0, 1.0]])
        self.jolts = JOLT * np.array([[PERIOD**3 / 3, PERIOD**2 / 2], [PERIOD**2 / 2, PERIOD]])
        self.spread = np.linalg.cholesky(self.jolts)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        world, half = self.world, self.world.half
        for slot, seed in zip(slots, seeds, strict=True):
            draw = drawn_from(seed)
            places = draw.uniform(-half, half, (world.count, 2))
            self.place[slot] = places[:1] if world.together else places
            self.heading[slot] = draw.uniform(-np.pi, np.pi, world.count)
            beside = self.place[slot, draw.integers(world.count, size=world.targets)]
            self.target[slot] = np.clip(beside + _ring(draw, 5.0, 10.0, world.targets), -half, half)
            self.speed[slot] = _ring(draw, 0.0, world.pace, world.targets)
            self.belief[slot] = np.clip(self.target[slot] + _ring(draw, 0.0, 5.0, world.targets), -half, half)
            self.noise[slot] = draw.standard_normal(self.noise.shape[1:])
            self.drift[slot], self.velocity[slot], self.turning[slot] = 0.0, 0.0, 0.0
            self.cover[slot], self.observed[slot], self.time[slot] = DOUBT * np.eye(2), False, 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        noise = np.moveaxis(self.noise[np.arange(len(self.time)), np.minimum(self.time, self.world.length - 1)], 1, 0)
        self._move_targets(noise[:2])
        self._move_pursuers(ACTIONS[np.stack(actions, 1)])
        self.observed = self._in_sight()
        self._believe(self.target + noise[2] * self._blur()[..., None])
        self.time = self.time + live
        paid = -0.1 * self.doubt().mean(1)
        over = np.repeat((self.time >= self.world.length)[:, None], self.world.count, 1)
        return Moved(np.repeat(paid[:, None], self.world.count, 1), np.zeros_like(over), over)

    def _move_targets(self, noise: Floats) -> None:
        jolt = np.einsum("ij,jbma->ibma", self.spread, noise)
        there = self.target + PERIOD * self.speed + jolt[0]
        speed = np.clip(self.speed + jolt[1], -FASTEST, FASTEST)
        half = self.world.half
        self.speed = np.where(np.abs(there) > half, -speed, speed)
        self.target = np.clip(there, -half, half)

    def _move_pursuers(self, chosen: Floats) -> None:
        """Along an arc, `chosen` `[B, n, 2]` speeds and turns."""
        pace, turn = chosen[..., 0], chosen[..., 1]
        bend = turn * PERIOD / 2
        along = self.heading + bend
        step = (pace * np.sinc(bend / np.pi))[..., None] * np.stack([np.cos(along), np.sin(along)], -1)
        self.place = np.clip(self.place + PERIOD * step, -self.world.half, self.world.half)
        self.heading = (self.heading + turn * PERIOD + np.pi) % (2 * np.pi) - np.pi
        self.turning = turn
        self.velocity = pace[..., None] * np.stack([np.cos(self.heading), np.sin(self.heading)], -1)

    def _in_sight(self) -> NDArray[np.bool_]:
        """Which targets each pursuer observes, `[B, n, m]`."""
        gap = self.target[:, None] - self.place[:, :, None]
        far, bearing = polar(gap, self.heading[..., None])
        return (far <= REACH) & (np.abs(bearing) <= VIEW / 2)

    def _blur(self) -> Floats:
        """The deviation of the mean of all measurements of a target, `[B, m]`; infinite ones are 0."""
        many = self.observed.sum(1)
        return np.where(many > 0, BLUR / np.sqrt(np.maximum(many, 1)), 0.0)

    def _believe(self, measured: Floats) -> None:
        """Predicts all beliefs, and corrects those of what was observed; `measured` `[B, m, 2]`."""
        self.belief = self.belief + PERIOD * self.drift
        cover = self.onward @ self.cover @ self.onward.T + self.jolts
        gain = cover[..., :, 0] / (cover[..., 0, 0] + self._blur() ** 2)[..., None]
        measures = np.asarray(self.observed.any(1))
        error = measured - self.belief
        corrected = cover - gain[..., :, None] * cover[..., None, 0, :]
        self.cover = np.where(measures[..., None, None], corrected, cover)
        self.belief = np.where(measures[..., None], self.belief + gain[..., :1] * error, self.belief)
        self.drift = np.where(measures[..., None], self.drift + gain[..., 1:] * error, self.drift)

    def doubt(self) -> Floats:
        """The log-determinant of every belief's covariance over place and velocity in the plane, `[B, m]`."""
        cover = self.cover
        value: Floats = 2 * np.log(cover[..., 0, 0] * cover[..., 1, 1] - cover[..., 0, 1] * cover[..., 1, 0])
        return value

    def seen(self) -> list[NDArray[np.float32]]:
        gap = self.belief[:, None] - self.place[:, :, None]
        far, bearing = polar(gap, self.heading[..., None])
        moving = self.drift[:, None] - self.velocity[:, :, None]
        near = np.maximum(far, 1e-3)
        outward = (gap * moving).sum(-1) / near
        round_ = (gap[..., 0] * moving[..., 1] - gap[..., 1] * moving[..., 0]) / near**2 - self.turning[..., None]
        doubt = np.broadcast_to(self.doubt()[:, None], far.shape)
        parts = (
            far / REACH,
            np.sin(bearing),
            np.cos(bearing),
            outward / 3,
            np.clip(round_ / np.pi, -3, 3),
            doubt / 10,
            self.observed,
        )
        rows = np.stack(parts, -1).astype(np.float32)
        if self.world.rows < self.world.targets:
            nearest = np.argsort(far, -1, kind="stable")[..., : self.world.rows]
            rows = np.take_along_axis(rows, nearest[..., None], 2)
        return list(rows.reshape(*rows.shape[:2], -1).transpose(1, 0, 2))

    def state(self) -> NDArray[np.float32]:
        known = np.stack([self.doubt() / 10, self.observed.any(1)], -1)
        targets = np.concatenate([self.target / REACH, known], -1)
        pursuers = np.concatenate([self.place / REACH, self.heading[..., None] / np.pi], -1)
        width = len(self.time)
        return np.concatenate([targets.reshape(width, -1), pursuers.reshape(width, -1)], 1).astype(np.float32)


def polar(gap: Floats, heading: Floats) -> tuple[Floats, Floats]:
    """Lengths of vectors `[.., 2]`, and their angles from a heading in [-pi, pi)."""
    angle = np.arctan2(gap[..., 1], gap[..., 0]) - heading
    far: Floats = np.sqrt((gap**2).sum(-1))
    return far, (angle + np.pi) % (2 * np.pi) - np.pi


def _ring(draw: np.random.Generator, least: float, most: float, count: int) -> Floats:
    """Vectors `[count, 2]` of an even direction and length."""
    length, angle = draw.uniform(least, most, count), draw.uniform(-np.pi, np.pi, count)
    vectors: Floats = length[:, None] * np.stack([np.cos(angle), np.sin(angle)], -1)
    return vectors
