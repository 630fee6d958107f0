"""Plans of flights as a task: an episode is one plan, and pays by how fast a flight is that stays on its path."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.methods.applications.mfrl_quadrotor.flight import Array, flown, least_scale, solved
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

LEGS = 3
ROOM = np.array([2.5, 1.5])
"""How far a waypoint is from the one before at most, sideways and up, in metres."""

MARGIN = 1.15
"""By which the times of least snap exceed those of an ideal flight."""

SPAN = 0.3
"""Of the logarithm of a leg's time around that."""

BIAS, BEST = 0.2, 0.2
"""What a flight earns beside the share of time that it saves, and the largest share that counts."""

SHARES = np.array([row for row in itertools.product(range(2, 15), repeat=LEGS) if sum(row) == 20]) / 20
"""Of the whole time that legs may have, among which the least snap is looked for."""


def of_least_snap(points: Array) -> Array:
    """The times of least snap `[B, LEGS]` for waypoints `[B, LEGS + 1, 2]`, at `MARGIN` times the least ideal ones."""
    snap = [solved(points, np.tile(shares, (len(points), 1)))[1] for shares in SHARES]
    times = SHARES[np.argmin(snap, 0)]
    return np.asarray(times * (MARGIN * least_scale(points, times))[:, None], np.float64)


def waypoints(seed: int) -> Array:
    """Those of an episode, from the origin, `[LEGS + 1, 2]` in metres."""
    moves = Key.of(seed).derive("waypoints").numpy().uniform(-1, 1, (LEGS, 2)) * ROOM
    return np.concatenate([np.zeros((1, 2)), moves.cumsum(0)])


def features(points: Array, factors: Array) -> Array:
    """What an estimator reads of plans, `[B, 3 LEGS]`: moves in units of the room, and logarithms of factors."""
    return np.concatenate([(np.diff(points, axis=1) / ROOM).reshape(len(points), -1), np.log(factors) / SPAN], 1)


def paid(flies: Array | NDArray[np.bool_], shorter: Array) -> Array:
    """P(flies) (0.2 + min(1 - T / T_0, 0.2)), over what the plan of least snap earns, `[B]`."""
    return np.asarray(flies * (BIAS + np.minimum(shorter, BEST)) / BIAS, np.float64)


@dataclass(frozen=True)
class Flights:
    """One plan for each episode: an action stretches the times of least snap by `exp(SPAN a)`, leg by leg.

    What is seen: the moves from waypoint to waypoint, and the times of least snap.

    Attributes:
        judge: the chance that plans fly, of their `features`; None for a flight with drag and lag.
    """

    judge: Callable[[Array], Array] | None = None

    @property
    def name(self) -> str:
        return "flights"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("planner",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(3 * LEGS, LEGS, discrete=False),)

    @property
    def joint(self) -> int:
        return 0

    def open(self, width: int) -> FlightCopies:
        return FlightCopies(self, width)


class FlightCopies(JointEnvironment):
    """Waypoints `[B, LEGS + 1, 2]` and the times of least snap `[B, LEGS]`, in as many copies."""

    def __init__(self, world: Flights, width: int) -> None:
        self.world = world
        self.points, self.times = np.zeros((width, LEGS + 1, 2)), np.ones((width, LEGS))

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        places = list(slots)
        self.points[places] = [waypoints(seed) for seed in seeds]
        self.times[places] = of_least_snap(self.points[places])
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        factors = stretched(np.asarray(actions[0], np.float64)[live])
        points, first = self.points[live], self.times[live]
        judge, rewards = self.world.judge, np.zeros((len(live), 1))
        chance = flown(points, first * factors) if judge is None else judge(features(points, factors))
        rewards[live, 0] = paid(chance, 1 - (first * factors).sum(1) / first.sum(1))
        over = np.ones((len(live), 1), bool)
        return Moved(rewards, over, ~over)

    def seen(self) -> Sequence[NDArray[np.float32]]:
        moves = (np.diff(self.points, axis=1) / ROOM).reshape(len(self.points), -1)
        return (np.concatenate([moves, self.times], 1).astype(np.float32),)


def stretched(actions: Array) -> Array:
    """The factors `[B, LEGS]` of the times of least snap."""
    return np.asarray(np.exp(SPAN * np.clip(actions, -1, 1)), np.float64)


_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 256,
    "rollout.samples": 1,
    "steps": 40,
    "update.lr": 2e-3,
    "update.epochs": 4,
    "update.minibatches": 4,
}


def _flights(name: str, settings: Mapping[str, str]) -> JointTask:
    return native_task(name, settings, {}, Flights, _SUGGESTED)


FLIGHTS = TaskForm(
    name="flights",
    description="times of the legs of a quadrotor's flight in a plane, faster than those of least snap",
    make=_flights,
)
