"""Soft ground without a border, simulated finely where a body is and coarsely elsewhere, and how to move it (UBSoft).

The ground is sand of a height over every cell of the plane, level until it is touched. Cells are kept by blocks: fine
ones around the body, which alone are simulated and follow it; those that it has left, frozen and as means of a few
cells; and none where nobody was. So memory and time follow the body and not the terrain, and no sand is lost or made
when a block is refined or coarsened.

A blade pushes the sand that stands higher than its edge before it; sand that is steeper than `REPOSE` slides.
`hocket train --task push --recipe ppo` learns to bring sand to a place, and `planned` searches for the moves of one
episode by the cross-entropy method.

The authors simulate materials by particles on a GPU, with gradients, for robots of many bodies. This is a height field
and one blade. The world brings no learner, so the row is no recipe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.analyses import Analysis
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

Array = NDArray[np.float64]
Block = tuple[int, int]

SIDE = 8
"""Cells of a block's side."""

COARSE = 4
"""Fine cells of a coarse one's side."""

LEVEL = 1.0
"""The height of the sand at first, in cells."""

REPOSE = 0.7
"""The largest difference of height of neighbours that holds."""

SLIDES = 6
"""Times that sand slides after a stroke of the blade."""

BLADE = 1.5
"""The radius of the blade; its edge is at a height of `LEVEL` / 2."""

STROKE = 1.0
"""What a stroke moves the blade at most; a move is two strokes."""


@dataclass
class Ground:
    """The ground of one episode.

    Attributes:
        reach: how many blocks beyond that of the body are simulated, in each direction.
        centre: the body's block. window: the heights of the fine blocks, `[W, W]`, the first at the least indices.
        frozen: the coarse heights `[SIDE / COARSE, SIDE / COARSE]` of the other blocks that have been fine.
    """

    reach: int = 1
    centre: Block = (0, 0)
    window: Array = field(default_factory=lambda: np.zeros((0, 0)))
    frozen: dict[Block, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.window = np.full((self.cells, self.cells), LEVEL)

    @property
    def cells(self) -> int:
        """Of a side of the window."""
        return (2 * self.reach + 1) * SIDE

    @property
    def corner(self) -> tuple[int, int]:
        """The first cell of the window."""
        return (self.centre[0] - self.reach) * SIDE, (self.centre[1] - self.reach) * SIDE

    @property
    def numbers(self) -> int:
        """How many heights are kept."""
        return self.window.size + sum(block.size for block in self.frozen.values())

    @property
    def excess(self) -> float:
        """The sand above the level at first, in all, less what is missing below."""
        return float(
            (self.window - LEVEL).sum() + sum((each - LEVEL).sum() * COARSE**2 for each in self.frozen.values())
        )

    def follow(self, place: Array) -> None:
        """Makes the blocks around a place `[2]` the fine ones."""
        centre = (int(np.floor(place[0] / SIDE)), int(np.floor(place[1] / SIDE)))
        if centre == self.centre:
            return
        fine = {block: self.window[self._part(block)] for block in self._blocks()}
        self.centre = centre
        window = np.empty_like(self.window)
        for block in self._blocks():
            if block in fine:
                heights = fine.pop(block)
            elif block in self.frozen:
                heights = self.frozen.pop(block).repeat(COARSE, 0).repeat(COARSE, 1)
            else:
                heights = np.full((SIDE, SIDE), LEVEL)
            window[self._part(block)] = heights
        for block, heights in fine.items():
            # What was never touched need not be kept.
            if (heights != LEVEL).any():
                self.frozen[block] = heights.reshape(SIDE // COARSE, COARSE, SIDE // COARSE, COARSE).mean((1, 3))
        self.window = window

    def _blocks(self) -> list[Block]:
        around = range(-self.reach, self.reach + 1)
        return [(self.centre[0] + across, self.centre[1] + up) for across in around for up in around]

    def _part(self, block: Block) -> tuple[slice, slice]:
        """Where a fine block is in the window."""
        first = [(index - middle + self.reach) * SIDE for index, middle in zip(block, self.centre, strict=True)]
        return slice(first[0], first[0] + SIDE), slice(first[1], first[1] + SIDE)


def places_of(grounds: Sequence[Ground]) -> Array:
    """The middles of all cells of these windows, `[B, W, W, 2]`."""
    ticks = np.arange(grounds[0].cells) + 0.5
    grid = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), -1)
    shifted: Array = grid + np.array([ground.corner for ground in grounds])[:, None, None]
    return shifted


def slid(heights: Array) -> Array:
    """Heights `[B, W, W]` after sand has slid once along either axis; none leaves the window."""
    for axis in (1, 2):
        drop = np.diff(heights, axis=axis)
        flow = 0.25 * np.sign(drop) * np.maximum(np.abs(drop) - REPOSE, 0)
        ends = [(0, 0)] * 3
        ends[axis] = (1, 1)
        # What crosses a border is lost on one side and won on the other.
        heights = heights + np.diff(np.pad(flow, ends), axis=axis)
    return heights


def pushed(heights: Array, offsets: Array, way: Array) -> Array:
    """Heights `[B, W, W]` after a stroke `[B, 2]` of blades, which ends at 0 of these offsets of cells `[B, W, W, 2]`.

    The sand above the edge under a blade goes before it, in equal parts.
    """
    distance = np.linalg.norm(offsets, axis=-1)
    length = np.linalg.norm(way, axis=-1)[:, None, None]
    moves = length > 1e-9
    ahead = (offsets * way[:, None, None]).sum(-1) / np.maximum(length * distance, 1e-9)
    under = (distance <= BLADE) & moves
    taken = np.where(under, np.maximum(heights - LEVEL / 2, 0), 0)
    front = (distance > BLADE) & (distance <= BLADE + 1.5) & (ahead > 0.5) & moves
    share = front / np.maximum(front.sum((1, 2), keepdims=True), 1)
    # Nothing is taken where there is nowhere to put it.
    taken = taken * front.any((1, 2))[:, None, None]
    return np.asarray(heights - taken + taken.sum((1, 2), keepdims=True) * share, np.float64)


@dataclass(frozen=True)
class Push:
    """`length` moves of a blade that begins at 0; sand within `RADIUS` of a target, beyond the level, is what counts.

    A move pays by how much more of it lies there, in units of 10 cells. What is seen: the way to the target, and the
    heights on 7 by 7 points around the blade, the level taken off.

    Attributes:
        away: how far the target is, in cells. fixed: whether it is in the same direction in every episode; else drawn.
        reach: see `Ground`.
    """

    length: int = 10
    away: float = 7.0
    fixed: bool = False
    reach: int = 1

    RADIUS = 3.0
    UNIT = 10.0

    def __post_init__(self) -> None:
        if self.length < 1 or self.reach < 1:
            raise ConfigurationError(f"task push: length = {self.length}, reach = {self.reach}; both are at least 1")
        if not self.RADIUS < self.away <= 2 * STROKE * self.length:
            raise ConfigurationError(
                f"task push: away = {self.away:g}; it is above {self.RADIUS:g} and at most "
                f"{2 * STROKE * self.length:g} cells, which the blade can come to"
            )

    @property
    def name(self) -> str:
        return "push"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("blade",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(2 + 49 + 1, 2, discrete=False),)

    @property
    def joint(self) -> int:
        return 0

    def target(self, seed: int) -> Array:
        """Where sand is wanted, `[2]`."""
        angle = 0.6 if self.fixed else float(Key.of(seed).derive("push").numpy().uniform(0, 2 * np.pi))
        return self.away * np.array([np.cos(angle), np.sin(angle)])

    def open(self, width: int) -> Blades:
        return Blades(self, width)


class Blades(JointEnvironment):
    """Grounds and blades in as many copies.

    Attributes:
        place, goal: of blades and targets, `[B, 2]`. filled: the sand at the target, `[B]`.
    """

    def __init__(self, world: Push, width: int) -> None:
        self.world, self.time = world, np.zeros(width, np.int64)
        self.grounds = [Ground(world.reach) for _ in range(width)]
        self.place, self.goal, self.filled = np.zeros((width, 2)), np.ones((width, 2)), np.zeros(width)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            self.grounds[slot], self.goal[slot] = Ground(self.world.reach), self.world.target(seed)
        places = list(slots)
        self.place[places] = self.time[places] = self.filled[places] = 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        way = STROKE * np.clip(np.asarray(actions[0], np.float64), -1, 1) * live[:, None]
        for _ in range(2):
            self.place = self.place + way
            for ground, place in zip(self.grounds, self.place, strict=True):
                ground.follow(place)
            heights = np.stack([ground.window for ground in self.grounds])
            heights = pushed(heights, places_of(self.grounds) - self.place[:, None, None], way)
            for _ in range(SLIDES):
                heights = slid(heights)
            for number in np.flatnonzero(live):
                self.grounds[number].window = heights[number]
        self.time = self.time + live
        before, self.filled = self.filled, self._at_the_target()
        over = (self.time >= self.world.length)[:, None]
        return Moved((self.filled - before)[:, None] / self.world.UNIT, over, np.zeros_like(over))

    def _at_the_target(self) -> Array:
        """The sand beyond the level on the cells near the target, `[B]`: of fine cells, and of frozen blocks' means."""
        near = np.linalg.norm(places_of(self.grounds) - self.goal[:, None, None], axis=-1) <= self.world.RADIUS
        fine = np.stack([ground.window for ground in self.grounds]) - LEVEL
        total: Array = (fine * near).sum((1, 2))
        middles = (np.arange(SIDE) + 0.5)[:, None, None] * [1, 0] + (np.arange(SIDE) + 0.5)[None, :, None] * [0, 1]
        for number, ground in enumerate(self.grounds):
            for block, heights in ground.frozen.items():
                apart = np.linalg.norm(middles + np.array(block) * SIDE - self.goal[number], axis=-1)
                if (apart <= self.world.RADIUS).any():
                    cells = heights.repeat(COARSE, 0).repeat(COARSE, 1) - LEVEL
                    total[number] += cells[apart <= self.world.RADIUS].sum()
        return total

    def seen(self) -> list[NDArray[np.float32]]:
        steps = np.arange(-3, 4)
        first = np.array([ground.corner for ground in self.grounds])
        middle = np.floor(self.place).astype(np.int64) - first
        rows, columns = (middle[:, axis, None] + steps for axis in (0, 1))
        heights = np.stack([ground.window for ground in self.grounds])
        around = heights[np.arange(len(heights))[:, None, None], rows[:, :, None], columns[:, None]] - LEVEL
        time = self.time[:, None] / self.world.length
        way = (self.goal - self.place) / self.world.away
        return [np.concatenate([way, around.reshape(len(around), -1), time], 1).astype(np.float32)]


def planned(
    world: Push, seed: int, rounds: int, population: int, *, elite: float = 0.2, key: Key
) -> tuple[Array, list[float]]:
    """The best moves `[length, 2]` of an episode that the cross-entropy method finds, and the best return so far.

    Moves are drawn from Gaussians that begin at 0 with deviation 0.7 and are fitted to the best share of each round's.
    """
    mean, deviation = np.zeros((world.length, 2)), np.full((world.length, 2), 0.7)
    best, record, path = mean, -np.inf, list[float]()
    for number in range(rounds):
        noise = key.derive(number).numpy().normal(size=(population, world.length, 2))
        tried = np.clip(mean + deviation * noise, -1, 1)
        returns = earned(world, seed, tried)
        chosen = tried[np.argsort(-returns)[: max(2, round(elite * population))]]
        mean, deviation = chosen.mean(0), chosen.std(0) + 0.02
        if returns.max() > record:
            best, record = tried[returns.argmax()], float(returns.max())
        path.append(record)
    return best, path


def earned(world: Push, seed: int, moves: Array) -> Array:
    """The returns `[B]` of these moves `[B, length, 2]` in the episode of a seed."""
    book, live, total = world.open(len(moves)), np.ones(len(moves), bool), np.zeros(len(moves))
    book.reset(range(len(moves)), [seed] * len(moves))
    for moment in range(world.length):
        total += book.step([moves[:, moment]], live).rewards[:, 0]
    return total


_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 64,
    "rollout.samples": 1,
    "steps": 40,
    "credit.gamma": 0.95,
    "credit.lam": 0.95,
    "update.lr": 2e-3,
    "update.epochs": 4,
    "update.minibatches": 4,
}


def _push(name: str, settings: Mapping[str, str]) -> JointTask:
    hints = {"length": int, "away": float, "fixed": bool, "reach": int}
    return native_task(name, settings, hints, Push, _SUGGESTED)


PUSH = TaskForm(
    name="push",
    description="a blade that pushes sand to a place on ground without a border, e.g. push?away=7",
    make=_push,
)

UBSOFT = Analysis(
    name="ubsoft",
    title="UBSoft: a simulation platform for robotic skill learning in unbounded soft environments",
    where="docs/applications.md",
    kind="application",
)
