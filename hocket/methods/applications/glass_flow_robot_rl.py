"""A robot that carries sheets of glass from station to station, dispatched by RL on a simulation of its motion.

Sheets go through the stations of a line in turn. One robot on a rail carries them, one at a time; a station holds one
sheet, and has no place where it could wait. What the robot fetches next decides what waits for what. The world is
`glass:N`; an action is a transfer, of those whose sheet is there and whose goal is free, so that any order of them ends
and no two sheets meet. The robot goes at once, and waits where the sheet is not ready yet.

Motion has a trapezoidal speed: for a way d with top speed v and acceleration a

    t(d) = d/v + v/a   where d >= v^2/a,   else  2 sqrt(d/a),

and with a sheet the top speed is lower. What is paid is minus the time that passes, in units of a lower bound of it.

The paper's abstract names neither learner nor reward; here PPO learns, so the row is no recipe:
`hocket train --task glass:4 --recipe ppo`. Robots, line and times are our own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.analyses import Analysis
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import BestValue, JointEnvironment, Moved, Seat
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

PITCH = 1.0
"""Metres from a station, or port, to the next."""

PROCESS = (2.0, 25.0)
"""The shortest and longest mean time of a station in seconds."""

JITTER = 0.2
"""How far a sheet's time in a station is from its mean at most, as a share of it."""

EXACT_STATIONS, EXACT_SHEETS = 4, 12
"""Up to which the least makespan is searched for."""


@dataclass(frozen=True)
class Robot:
    """The motion of a type of robot.

    Attributes:
        speed, acceleration: in m/s and m/s^2. laden: the share of the speed that is allowed with a sheet. grip: seconds
            to take a sheet, and to put it down.
    """

    speed: float
    acceleration: float
    laden: float
    grip: float

    def travel(self, metres: NDArray[Any], *, sheet: bool = False) -> Array:
        """Seconds for ways from rest to rest."""
        top = self.speed * (self.laden if sheet else 1.0)
        short = metres < top**2 / self.acceleration
        slow: Array = np.where(
            short, 2 * np.sqrt(metres / self.acceleration), metres / top + top / self.acceleration * (metres > 0)
        )
        return slow

    @property
    def carry(self) -> float:
        """Seconds of a transfer from a station to the next, both grips included."""
        return 2 * self.grip + float(self.travel(np.array(PITCH), sheet=True))


ROBOTS: Mapping[str, Robot] = {
    "standard": Robot(1.5, 1.5, 0.6, 1.0),
    "swift": Robot(3.0, 4.0, 0.5, 0.7),
    "heavy": Robot(0.6, 0.5, 0.9, 2.0),
}


@dataclass(frozen=True)
class GlassLine:
    """`sheets` through so many `stations`, whose times are drawn for an episode.

    What is seen, times in units of the longest mean: of each station whether it holds a sheet, how long that one still
    takes, and the mean time; where the robot stands; the share of sheets that have not begun.

    Attributes:
        robot: of `ROBOTS`.
    """

    stations: int = 4
    sheets: int = 12
    robot: str = "standard"

    def __post_init__(self) -> None:
        if self.stations < 1 or self.sheets < 1:
            raise ConfigurationError(
                f"task glass: {self.stations} stations and {self.sheets} sheets; both are at least 1"
            )
        if self.robot not in ROBOTS:
            raise ConfigurationError(f"task glass: there is no robot {self.robot!r}; choose from {', '.join(ROBOTS)}")

    @property
    def name(self) -> str:
        return f"glass:{self.stations}"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("dispatcher",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(4 * self.stations + 3, self.stations + 1),)

    @property
    def joint(self) -> int:
        return 0

    def drawn(self, seed: int) -> tuple[Array, Array]:
        """The mean times `[stations]` of a seed, and those of every sheet `[sheets, stations]`."""
        draw = Key.of(seed).derive("glass").numpy()
        mean = draw.uniform(*PROCESS, self.stations)
        return mean, mean * (1 + JITTER * draw.uniform(-1, 1, (self.sheets, self.stations)))

    def bound(self, times: Array) -> float:
        """A makespan that no order is below, of these times `[sheets, stations]`.

        The robot carries all; and a station stands empty from when a sheet is taken until the robot has brought that
        one on, come back to the station before it, and brought the next.
        """
        robot, sheets = ROBOTS[self.robot], len(times)
        empty = 2 * robot.carry + float(robot.travel(np.array(2 * PITCH)))
        longest = sheets * (self.stations + 1) * robot.carry
        for station in range(self.stations):
            before = times[:, :station].sum(1).min() + (station + 1) * robot.carry
            after = times[:, station + 1 :].sum(1).min() + (self.stations - station) * robot.carry
            longest = max(longest, before + times[:, station].sum() + (sheets - 1) * empty + after)
        return float(longest)

    def oracle(self, seed: int) -> BestValue:
        """Minus the least makespan over its bound for short lines, which knows every sheet's time; else minus 1."""
        if self.stations > EXACT_STATIONS or self.sheets > EXACT_SHEETS:
            return BestValue(-1.0, exact=False)
        times = self.drawn(seed)[1]
        return BestValue(-least_makespan(ROBOTS[self.robot], times.tolist()) / self.bound(times))

    def open(self, width: int) -> GlassFlow:
        return GlassFlow(self, width)


class GlassFlow(JointEnvironment):
    """Lines in as many copies. A stage is a transfer: out of the port, out of each station.

    Attributes:
        times, mean: `[B, sheets, stations]` and `[B, stations]`. done: sheets that have left by each stage,
            and ready: when the next one of each is, `[B, stations + 1]`. clock, place: of the robot, `[B]`.
        first: the bound, `[B]`. taken, put: when each transfer began and was over, `[B, sheets, stations + 1]`.
    """

    def __init__(self, world: GlassLine, width: int) -> None:
        self.world, self.robot = world, ROBOTS[world.robot]
        self.times, self.mean = np.ones((width, world.sheets, world.stations)), np.ones((width, world.stations))
        self.done, self.ready = np.zeros((width, world.stations + 1), np.int64), np.zeros((width, world.stations + 1))
        self.clock, self.first, self.place = np.zeros(width), np.ones(width), np.zeros(width, np.int64)
        self.taken, self.put = (np.zeros((width, world.sheets, world.stations + 1)) for _ in range(2))

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            self.mean[slot], self.times[slot] = self.world.drawn(seed)
            self.first[slot] = self.world.bound(self.times[slot])
        places = list(slots)
        self.done[places] = self.place[places] = 0
        self.ready[places] = self.clock[places] = self.taken[places] = self.put[places] = 0.0
        return {}

    def holding(self) -> NDArray[np.bool_]:
        """Whether each station holds a sheet, `[B, stations]`."""
        return np.greater(self.done[:, :-1], self.done[:, 1:])

    def reached(self) -> Array:
        """When the robot could take the sheet of each stage at the earliest, `[B, stations + 1]`."""
        ways = PITCH * np.abs(np.arange(self.world.stations + 1) - self.place[:, None])
        soonest: Array = np.maximum(self.clock[:, None] + self.robot.travel(ways), self.ready)
        return soonest

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        copy = np.flatnonzero(live)
        stage = np.asarray(actions[0], np.int64)[copy]
        begin = self.reached()[copy, stage]
        end, sheet = begin + self.robot.carry, self.done[copy, stage]
        self.taken[copy, sheet, stage], self.put[copy, sheet, stage] = begin, end
        self.done[copy, stage] += 1
        on = stage < self.world.stations
        self.ready[copy[on], stage[on] + 1] = end[on] + self.times[copy[on], sheet[on], stage[on]]
        passed = np.zeros(len(live))
        passed[copy] = end - self.clock[copy]
        self.clock[copy], self.place[copy] = end, stage + 1
        over = (self.done[:, -1] >= self.world.sheets)[:, None]
        return Moved(-passed[:, None] / self.first[:, None], over, np.zeros_like(over))

    def allowed(self) -> list[NDArray[np.bool_]]:
        holding, there = self.holding(), np.ones((len(self.clock), 1), bool)
        source = np.concatenate([(self.done[:, :1] < self.world.sheets), holding], 1)
        mask = source & np.concatenate([~holding, there], 1)
        return [mask | ~mask.any(1, keepdims=True)]

    def seen(self) -> list[NDArray[np.float32]]:
        unit, holding = PROCESS[1], self.holding()
        left = np.where(holding, self.ready[:, 1:] - self.clock[:, None], 0.0) / unit
        stands = self.place[:, None] == np.arange(self.world.stations + 2)
        begun = 1 - self.done[:, :1] / self.world.sheets
        return [np.concatenate([holding, left, self.mean / unit, stands, begun], 1).astype(np.float32)]


def least_makespan(robot: Robot, times: Sequence[Sequence[float]]) -> float:
    """The least makespan of these times of sheets and stations, over all orders of transfers.

    States with equal sheets everywhere and the robot at the same place are alternatives; one that is later in nothing
    makes another needless.
    """
    sheets, stations = len(times), len(times[0])
    ways = [float(robot.travel(np.array(PITCH * apart))) for apart in range(stations + 2)]
    states: dict[tuple[tuple[int, ...], int], list[tuple[float, ...]]] = {
        ((0,) * (stations + 1), 0): [(0.0,) * (stations + 1)]
    }
    for _ in range(sheets * (stations + 1)):
        following: dict[tuple[tuple[int, ...], int], list[tuple[float, ...]]] = {}
        for (gone, place), alternatives in states.items():
            for stage in range(stations + 1):
                there = gone[stage] < (sheets if stage == 0 else gone[stage - 1])
                if not there or (stage < stations and gone[stage] > gone[stage + 1]):
                    continue
                after = (tuple(count + (number == stage) for number, count in enumerate(gone)), stage + 1)
                for clock, *ends in alternatives:
                    # The times at which stations are ready; 0 for an empty one.
                    free = [0.0, *ends]
                    end = max(clock + ways[abs(place - stage)], free[stage]) + robot.carry
                    free[stage] = 0.0
                    if stage < stations:
                        free[stage + 1] = end + times[gone[stage]][stage]
                    _keep(following.setdefault(after, []), (end, *free[1:]))
        states = following
    return min(row[0] for rows in states.values() for row in rows)


def _keep(rows: list[tuple[float, ...]], row: tuple[float, ...]) -> None:
    """Adds an alternative unless another is later in nothing, and drops those that are later in nothing than it."""
    if any(all(first <= second for first, second in zip(known, row, strict=True)) for known in rows):
        return
    rows[:] = [known for known in rows if not all(first <= second for first, second in zip(row, known, strict=True))]
    rows.append(row)


_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 64,
    "rollout.samples": 1,
    "steps": 40,
    "credit.gamma": 1.0,
    "credit.lam": 0.95,
    "update.lr": 2e-3,
    "update.epochs": 4,
    "update.minibatches": 4,
}


def _glass(name: str, settings: Mapping[str, str]) -> JointTask:
    stations = name.partition(":")[2] or "4"
    if not stations.isdigit():
        raise ConfigurationError(f"task {name}: {stations!r} is no number of stations; take glass:4")
    hints = {"sheets": int, "robot": str}
    return native_task(name, settings, hints, lambda **given: GlassLine(int(stations), **given), _SUGGESTED)


GLASS = TaskForm(
    name="glass:STATIONS",
    description="a robot that carries sheets through a line of so many stations, e.g. glass:4?robot=swift",
    make=_glass,
)

GLASS_FLOW_ROBOT_RL = Analysis(
    name="glass-flow-robot-rl",
    title="Reinforcement learning of display transfer robots in glass flow control systems",
    where="docs/applications.md",
    kind="application",
)
