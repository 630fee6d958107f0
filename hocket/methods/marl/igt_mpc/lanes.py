"""Two cars on lanes that cross, at any place, speed and acceleration: equilibria by least squares.

A drive is the solution of a convex problem for each order of passing, so a best answer is the better of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.worlds import WorldFamily

TICK, CRUISE, FASTEST, PUSH, EFFORT = 0.5, 1.5, 2.0, 1.25, 1.0
"""Seconds a step; the speed that is wanted and the highest; the strongest acceleration and braking; what it costs."""

CRASH, LATE, WIDTH, MARGIN = 20.0, 10.0, 2.0, 1e-6
"""What a crash costs both, and not to be through at the end; how wide the crossing is; how far out is out of it."""

LEVELS = 21
"""Accelerations that are tried of a plan, and then as many around the best of them."""

ALONE = ((1 + 4 * EFFORT / TICK**2) ** 0.5 - 1) / 2
"""P of `P (v - CRUISE)^2`, the least cost of a car alone: the root of `P = (1 + P) r / (r + h^2 (1 + P))`."""


@dataclass(frozen=True)
class Motion:
    """A car's drive: places and speeds `[T + 1]`, and what it still costs from each time on, `[T + 1]`."""

    places: Array
    speeds: Array
    costs: Array


@dataclass(frozen=True, eq=False)
class Lanes:
    """Each car is at a place of its own lane, `approach` before the crossing; a step of time h is `TICK`.

    `p' = p + h v + h^2 u / 2`, `v' = v + h u`, `|u| <= PUSH`, `0 <= v <= FASTEST`, a step costs `(v' - CRUISE)^2 +
    EFFORT u^2`. At no step both may be within the crossing. A car alone never comes to a bound, so its way costs
    `ALONE (v - CRUISE)^2` exactly.

    An answer is a network `[3, M + 1, M]` (see `delayed`) of what the other costs a car above that, where its look
    ahead ends; zeros are the plan of one who thinks itself alone. The value is less what driving with it costs a car
    on average, from `cases` drawn pairs of states.

    Attributes:
        look: how many steps a plan has. steps: of an episode. cases: of a value.
    """

    approach: int
    look: int = 2
    steps: int = 30
    cases: int = 60
    name: str = "lanes"

    def __post_init__(self) -> None:
        if self.approach < 4 or self.look < 1 or self.steps < 3 * self.approach or self.cases < 1:
            raise ConfigurationError(
                f"{self.name}: approach = {self.approach}, look = {self.look}, steps = {self.steps}, cases = "
                f"{self.cases}; approach is at least 4, steps 3 times that, look and cases at least 1"
            )

    @property
    def through(self) -> float:
        """The place from which a car is through."""
        return self.approach + WIDTH

    def within(self, places: Array) -> NDArray[np.bool_]:
        """Whether a car is in the crossing."""
        return (places >= self.approach) & (places < self.through)

    def drawn(self, cases: int, key: Key) -> Array:
        """`[cases, 4]`, place and speed of both, in the first half of the approach."""
        draw = key.numpy()
        places, speeds = draw.uniform(0, self.approach / 2, (cases, 2)), draw.uniform(0.8, FASTEST, (cases, 2))
        return np.stack([places[:, 0], speeds[:, 0], places[:, 1], speeds[:, 1]], -1)

    # ------------------------------------------------------------ equilibria

    @cached_property
    def _motion(self) -> tuple[Array, Array]:
        """Speeds and places `[T, T]` after each step per acceleration, without the start."""
        before = np.tri(self.steps)
        ages = np.arange(self.steps)[:, None] - np.arange(self.steps)[None]
        return TICK * before, TICK**2 * (ages + 0.5) * before

    def best_motion(
        self, place: float, speed: float, *, through: int | None = None, waiting: int | None = None
    ) -> Motion | None:
        """The cheapest drive; None where there is none.

        Args:
            through: the step at which it is through at the latest.
            waiting: the last at which it is before the crossing.
        """
        speeds, places = self._motion
        drifted = place + speed * TICK * np.arange(1, self.steps + 1)
        eye = np.eye(self.steps)
        wanted = np.concatenate([speeds, np.sqrt(EFFORT) * eye, np.sqrt(ALONE) * speeds[-1:]])
        aim = np.concatenate([np.full(self.steps, CRUISE - speed), np.zeros(self.steps)])
        aim = np.append(aim, np.sqrt(ALONE) * (CRUISE - speed))
        rows, least = [speeds, -speeds, eye, -eye], [-speed, speed - FASTEST, -PUSH, -PUSH]
        bounds = [np.full(self.steps, one) for one in least]
        for time, sign, edge in ((through, 1, self.through), (waiting, -1, self.approach - MARGIN)):
            if time is not None and time > 0:
                rows.append(sign * places[time - 1 : time])
                bounds.append(np.array([sign * (edge - drifted[time - 1])]))
            elif time == 0 and sign * (place - edge) < 0:
                return None
        pushes = least_squares(wanted, aim, np.concatenate(rows), np.concatenate(bounds))
        if pushes is None:
            return None
        after = speed + speeds @ pushes
        paid = np.append((after - CRUISE) ** 2 + EFFORT * pushes**2, ALONE * (after[-1] - CRUISE) ** 2)
        return Motion(
            np.append(place, drifted + places @ pushes), np.append(speed, after), paid[::-1].cumsum()[::-1].copy()
        )

    def answered(self, place: float, speed: float, other: Array) -> Motion | None:
        """The best answer to the other's places `[T + 1]`: through before it comes or waiting until it is."""
        times = np.flatnonzero(self.within(other))
        if not len(times):
            return self.best_motion(place, speed)
        ways = (
            self.best_motion(place, speed, through=int(times[0])),
            self.best_motion(place, speed, waiting=int(times[-1])),
        )
        found = [way for way in ways if way is not None]
        return min(found, key=lambda way: float(way.costs[0]), default=None)

    def equilibrium(self, start: Array) -> tuple[Motion, Motion] | None:
        """Drives of which each is the best answer to the other, from `start` `[4]`; None where none is found.

        The one that would be at the crossing first drives as if alone; where the other cannot but meet it, they change.
        """
        alone = [self.best_motion(start[2 * car], start[2 * car + 1]) for car in (0, 1)]
        early = [int((drive.places >= self.approach).argmax()) for drive in alone if drive is not None]
        for first in sorted((0, 1), key=lambda car: early[car]):
            led = alone[first]
            assert led is not None
            drive = self.answered(start[2 - 2 * first], start[3 - 2 * first], led.places)
            if drive is not None:
                return (led, drive) if first == 0 else (drive, led)
        return None

    # ------------------------------------------------------------ planning ahead

    def inputs(self, states: Array) -> Array:
        """`[N, 5]` numbers near 1 from rows of player, own place and speed, the other's place and speed."""
        car, own, speed, other, going = states.T
        size = self.approach
        return np.stack([2 * car - 1, own / size, speed - 1, (other - own) / size, going - 1], -1)

    def delayed(self, network: Array, states: Array) -> Array:
        """`[N]`, what the other costs, by layers of tanh and a sum, a last row added; 0 where one is through."""
        found, near = np.zeros(len(states)), (states[:, 1] < self.through) & (states[:, 3] < self.through)
        told = self.inputs(states[near])
        told = np.pad(told, ((0, 0), (0, network.shape[-1] - told.shape[-1])))
        for place, layer in enumerate(network):
            told = told @ layer[:-1] + layer[-1]
            told = np.tanh(told) if place < len(network) - 1 else told
        found[near] = np.maximum(told[:, 0], 0.0)
        return found

    @staticmethod
    def driven(place: Array, speed: Array, push: Array) -> tuple[Array, Array, Array]:
        """Place and speed a step later, and its cost; the push is cut to what the speed allows."""
        after = np.clip(speed + TICK * np.clip(push, -PUSH, PUSH), 0, FASTEST)
        done = (after - speed) / TICK
        return place + TICK * (speed + after) / 2, after, (after - CRUISE) ** 2 + EFFORT * done**2

    def weighed(self, network: Array, car: int, state: Array, forecast: Array, pushes: Array) -> Array:
        """`[N, K]`, costs of plans that hold an acceleration of `pushes` `[N, K]`; infinite where one meets the other.

        Args:
            state: `[N, 4]`, of itself and the other. forecast: `[N, look]`, the other's accelerations.
        """
        own, speed = (np.repeat(state[:, place : place + 1], pushes.shape[1], 1) for place in (0, 1))
        other, going = state[:, 2], state[:, 3]
        total, met = np.zeros(pushes.shape), np.zeros(pushes.shape, bool)
        for step in range(self.look):
            own, speed, cost = self.driven(own, speed, pushes)
            other, going, _ = self.driven(other, going, forecast[:, step])
            met |= self.within(own) & self.within(other)[:, None]
            total += cost
        spread = [
            np.broadcast_to(one, own.shape).reshape(-1) for one in (car, own, speed, other[:, None], going[:, None])
        ]
        rest = self.delayed(network, np.stack(spread, -1)).reshape(own.shape)
        return np.where(met, np.inf, total + ALONE * (speed - CRUISE) ** 2 + rest)

    def planned(self, network: Array, car: int, state: Array, forecast: Array) -> Array:
        """`[N]`, the acceleration of the cheapest plan, braking where all meet the other.

        Of `LEVELS` over the whole range, and then of as many between the neighbours of the best.
        """
        pushes = np.broadcast_to(np.linspace(-PUSH, PUSH, LEVELS), (len(state), LEVELS))
        for finer in (False, True):
            found = self.weighed(network, car, state, forecast, pushes)
            best = pushes[np.arange(len(state)), found.argmin(-1)]
            if not finer:
                near = np.linspace(-1, 1, LEVELS) * 2 * PUSH / (LEVELS - 1)
                pushes = np.clip(best[:, None] + near, -PUSH, PUSH)
        return np.where(np.isfinite(found.min(-1)), best, -PUSH)

    def driving(self, network: Array) -> tuple[Array, NDArray[np.bool_], NDArray[np.bool_]]:
        """Costs `[N, 2]` of both who plan at every step, who crashed and who were late, `[N]`.

        They plan in turn. The first takes the other to do what it last said it would, and then to keep its speed; the
        second has heard what the first is about to do.
        """
        state = self.drawn(self.cases, Key.of(0).derive("cases"))
        said, cost, crashed = np.zeros(len(state)), np.zeros((len(state), 2)), np.zeros(len(state), bool)
        for _ in range(self.steps):
            left = np.repeat(said[:, None], self.look, 1)
            left[:, -1] = 0
            first = self.planned(network, 0, state, left)
            heard = np.repeat(first[:, None], self.look, 1)
            said = self.planned(network, 1, state[:, [2, 3, 0, 1]], heard)
            moved = [
                self.driven(state[:, 2 * car], state[:, 2 * car + 1], push) for car, push in enumerate((first, said))
            ]
            state = np.stack([*moved[0][:2], *moved[1][:2]], -1)
            cost += np.where(crashed[:, None], 0, np.stack([moved[0][2], moved[1][2]], -1))
            meet = self.within(state[:, 0]) & self.within(state[:, 2]) & ~crashed
            cost[meet] += CRASH
            crashed |= meet
        behind = (state[:, [0, 2]] < self.through) & ~crashed[:, None]
        return cost + LATE * behind, crashed, np.asarray(behind.any(-1))

    def value(self, network: Array) -> float:
        return -float(self.driving(network)[0].mean())

    @cached_property
    def optimum(self) -> float:
        """A bound: each drives as if it were alone, and nothing follows the episode."""
        least = 0.0
        for _ in range(self.steps):
            least = (1 + least) * EFFORT / (EFFORT + TICK**2 * (1 + least))
        start = self.drawn(self.cases, Key.of(0).derive("cases"))
        return -least * float(((start[:, [1, 3]] - CRUISE) ** 2).mean())


def least_squares(rows: Array, aim: Array, kept: Array, least: Array) -> Array | None:
    """`argmin |rows u - aim|` over `kept u >= least`; None where no u keeps them all.

    By Lawson and Hanson's way: in coordinates where the norm is plain, the point of a polyhedron that is nearest to 0
    is read from a least-squares problem of multipliers that are not negative.
    """
    turn, scale = np.linalg.qr(rows)
    centre = np.linalg.solve(scale, turn.T @ aim)
    short = least - kept @ centre
    if (short <= 0).all():
        return centre
    sides = np.linalg.solve(scale.T, kept.T)
    unit = np.append(np.zeros(len(centre)), 1.0)
    whole = np.concatenate([sides, short[None]])
    multipliers, off = nnls(whole, unit)
    if off < 1e-9:
        return None
    left = whole @ multipliers - unit
    found: Array = centre - np.linalg.solve(scale, left[:-1] / left[-1])
    return found


def lanes(approach: int) -> Lanes:
    """Lanes of this length before the crossing; plans of two steps."""
    return Lanes(approach, name=f"lanes:{approach}", steps=max(30, 3 * approach))


LANES = WorldFamily(
    name="lanes",
    description="two cars whose lanes cross, with any place, speed and acceleration",
    make=lanes,
    size=(8,),
)
