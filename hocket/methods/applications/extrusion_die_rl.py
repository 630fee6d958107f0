"""The shape of an extrusion die by RL, as changes of a spline lattice (Wolff et al.).

A melt enters a manifold and leaves by four channels. Which share of it leaves where follows from the walls, and these
from a lattice of control points P by free-form deformation, with the cubic polynomials of Bernstein,

    x'(u, v) = sum_ij B_i(u) B_j(v) P_ij.

So a shape is a few numbers, whatever it is made of. An episode has a target, shares of the outlets that the melt is to
have; an action moves control points, and pays by how much less of the melt leaves by a wrong outlet. A policy that was
trained over drawn targets has the shape for a new one in a few flows, where a search begins anew each time.

The authors compute the flow of a polymer by finite elements. Here it is creeping and Newtonian, and a network of
channels between two walls: a piece of length L and width w between points whose pressures differ by p lets through

    q = w^3 p / (12 L),

and what enters a junction leaves it: a linear system. With `length=1` an action sets the points outright, which the
authors call direct; otherwise changes are incremental. The world brings no learner, so the row is no recipe:
`hocket train --task die --recipe ppo`.
"""

from __future__ import annotations

import math
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

DEGREE = 3
"""Of the polynomials, so that the lattice has 4 by 4 control points."""

OUTLETS = 4
HEIGHTS = (np.arange(OUTLETS) + 0.5) / OUTLETS
"""Of the middles of the outlets' channels, which go from the manifold to the right side of the unit square."""

MANIFOLD = (0.1, 0.3)
"""The walls of the manifold, which goes upwards from the inlet at the bottom."""

HALF = 0.06
"""Of the width of a channel."""

PIECES = 8
"""Of which a channel consists, and as many of the manifold from a junction to the next."""

RANGE = 0.15
"""The largest displacement of a control point. Points are a third apart, so no two can change places."""

UNIT = 0.07
"""What of the melt leaves by a wrong outlet at first, as a mean over targets."""

MOVABLE = [(column, row) for column in (1, 2) for row in range(DEGREE + 1)]
"""Those of the two inner columns, which move up and down; the inlet and the profile of the outlets stay."""


def lattice(moves: Array) -> Array:
    """The control points `[B, 4, 4, 2]` after these displacements `[B, 8]` of `MOVABLE`."""
    ticks = np.linspace(0, 1, DEGREE + 1)
    points = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), -1)
    placed = np.repeat(points[None], len(moves), 0)
    columns, rows = np.array(MOVABLE).T
    placed[:, columns, rows, 1] += moves
    return placed


def weights(points: Array) -> Array:
    """Of the control points where points `[.., 2]` of the unit square lie, `[.., 16]`."""
    powers = np.arange(DEGREE + 1)
    choose = np.array([math.comb(DEGREE, power) for power in powers])
    across, up = (
        choose * each**powers * (1 - each) ** (DEGREE - powers) for each in (points[..., :1], points[..., 1:])
    )
    products: Array = (across[..., :, None] * up[..., None, :]).reshape(*points.shape[:-1], -1)
    return products


def deformed(control: Array, weight: Array) -> Array:
    """Where points of these weights `[.., 16]` come to lie, `[B, .., 2]`, by control points `[B, 4, 4, 2]`."""
    flat = weight.reshape(-1, weight.shape[-1]) @ control.reshape(len(control), -1, 2)
    placed: Array = flat.reshape(len(control), *weight.shape[:-1], 2)
    return placed


def _walls() -> tuple[Array, Array]:
    """Both walls of every channel `[2 * OUTLETS, PIECES + 1, 2]`: of the manifold up to each junction, then outlets."""
    left, right = list[Array](), list[Array]()
    for below, above in zip((0.0, *HEIGHTS[:-1]), HEIGHTS, strict=True):
        way = np.linspace(below, above, PIECES + 1)
        left.append(np.stack([np.full_like(way, MANIFOLD[0]), way], 1))
        right.append(np.stack([np.full_like(way, MANIFOLD[1]), way], 1))
    for height in HEIGHTS:
        way = np.linspace(MANIFOLD[1], 1, PIECES + 1)
        left.append(np.stack([way, np.full_like(way, height + HALF)], 1))
        right.append(np.stack([way, np.full_like(way, height - HALF)], 1))
    return np.array(left), np.array(right)


WALLS = weights(np.stack(_walls()))
"""The weights of points of both walls of every channel, `[2, channels, PIECES + 1, 16]`."""


def resistances(moves: Array) -> Array:
    """Of every channel, `[B, 2 * OUTLETS]`: the sum of those of its pieces, which lie one behind the other."""
    walls = deformed(lattice(moves), WALLS)
    middle, width = walls.mean(1), np.linalg.norm(walls[:, 0] - walls[:, 1], axis=-1)
    long = np.linalg.norm(np.diff(middle, axis=2), axis=-1)
    wide = (width[..., 1:] + width[..., :-1]) / 2
    total: Array = (12 * long / wide**3).sum(-1)
    return total


def shares(moves: Array) -> Array:
    """The share of the melt `[B, OUTLETS]` that leaves by each outlet, where the pressure is 0."""
    lets = 1 / resistances(moves)
    along, out = lets[:, :OUTLETS], lets[:, OUTLETS:]
    # The equations of the junctions: the first gets what is pressed in, 1.
    matrix = np.zeros((len(moves), OUTLETS, OUTLETS))
    for junction in range(OUTLETS):
        matrix[:, junction, junction] += out[:, junction]
        if junction:
            for side, across in ((junction, junction - 1), (junction - 1, junction)):
                matrix[:, side, side] += along[:, junction]
                matrix[:, side, across] -= along[:, junction]
    entering = np.zeros((OUTLETS, 1))
    entering[0] = 1.0
    pressure = np.linalg.solve(matrix, np.broadcast_to(entering, (len(moves), OUTLETS, 1)))[..., 0]
    leaving: Array = pressure * out
    return leaving


def misplaced(moves: Array, target: Array) -> Array:
    """The share of the melt `[B]` that leaves by a wrong outlet, given the shares `[B, OUTLETS]` that are wanted."""
    wrong: Array = np.abs(shares(moves) - target).sum(1) / 2
    return wrong


@dataclass(frozen=True)
class Die:
    """`length` changes of a die that begins without deformation; the targets are those of drawn shapes.

    What is seen: the displacements, the shares, those wanted, what is missing, and the share of changes that are over.
    The return is by how much less of the melt is misplaced at the end, in `UNIT`s.

    Attributes:
        length: with 1, an action sets the displacements. even: whether every outlet is always to have the same share.
    """

    length: int = 6
    even: bool = False

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigurationError(f"task die needs at least 1 change of the shape, not {self.length}")

    @property
    def name(self) -> str:
        return "die"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("designer",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(len(MOVABLE) + 3 * OUTLETS + 1, len(MOVABLE), discrete=False),)

    @property
    def joint(self) -> int:
        return 0

    @property
    def largest(self) -> float:
        """What a change moves a point at most: one or two of them cross half of its range, as many as there are."""
        return RANGE * min(1.0, 2 / self.length)

    def target(self, seed: int) -> Array:
        """The shares that are wanted, `[OUTLETS]`."""
        if self.even:
            return np.full(OUTLETS, 1 / OUTLETS)
        moves = Key.of(seed).derive("die").numpy().uniform(-RANGE, RANGE, (1, len(MOVABLE)))
        return np.asarray(shares(moves)[0], np.float64)

    def oracle(self, seed: int) -> BestValue:
        """What is misplaced at first, in `UNIT`s, for a drawn target is the flow of some shape."""
        first = misplaced(np.zeros((1, len(MOVABLE))), self.target(seed)[None])
        return BestValue(float(first[0]) / UNIT, exact=not self.even)

    def open(self, width: int) -> Dies:
        return Dies(self, width)


class Dies(JointEnvironment):
    """Dies in as many copies.

    Attributes:
        moves: displacements `[B, 8]`. leaving, goal: the shares, and those wanted, `[B, OUTLETS]`.
    """

    def __init__(self, world: Die, width: int) -> None:
        self.world, self.time = world, np.zeros(width, np.int64)
        self.moves = np.zeros((width, len(MOVABLE)))
        self.leaving, self.goal = shares(self.moves), shares(self.moves)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        places = list(slots)
        self.moves[places] = self.time[places] = 0
        self.leaving[places] = shares(self.moves[places])
        self.goal[places] = [self.world.target(seed) for seed in seeds]
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        change = self.world.largest * np.clip(np.asarray(actions[0], np.float64), -1, 1) * live[:, None]
        self.moves = np.clip(self.moves + change, -RANGE, RANGE)
        before, self.leaving = self.leaving, shares(self.moves)
        gain = (np.abs(before - self.goal).sum(1) - np.abs(self.leaving - self.goal).sum(1)) / 2
        self.time = self.time + live
        over = (self.time >= self.world.length)[:, None]
        return Moved(gain[:, None] / UNIT, over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        time = self.time[:, None] / self.world.length
        missing = self.goal - self.leaving
        parts = [self.moves / RANGE, 4 * self.leaving - 1, 4 * self.goal - 1, 10 * missing, time]
        return [np.concatenate(parts, 1).astype(np.float32)]


_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 128,
    "rollout.samples": 1,
    "steps": 80,
    "credit.gamma": 0.9,
    "credit.lam": 0.9,
    "update.lr": 2e-3,
    "update.epochs": 4,
    "update.minibatches": 4,
}


def _die(name: str, settings: Mapping[str, str]) -> JointTask:
    return native_task(name, settings, {"length": int, "even": bool}, Die, _SUGGESTED)


DIE = TaskForm(
    name="die",
    description="the shape of an extrusion die by control points, e.g. die?length=6",
    make=_die,
)

EXTRUSION_DIE_RL = Analysis(
    name="extrusion-die-rl",
    title="Investigation of reinforcement learning for shape optimization of profile extrusion dies",
    where="docs/applications.md",
    kind="application",
)
