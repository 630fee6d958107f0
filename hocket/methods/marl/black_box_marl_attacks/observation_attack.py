"""A joint world whose agents see a little wrongly: attacks on what they observe, within a budget.

Attacks after Constrained Black-Box Attacks Against Multi-Agent Reinforcement Learning: nothing is known of policies,
weights or rewards. How the perturbations are made is derived here from the abstract's description.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.wrapper import WrappedCourse, WrappedWorld
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key, uniforms
from hocket.core.worlds import JointEnvironment, JointWorld, Moved, Seat
from hocket.core.wrappers import WorldWrapper

Floats = NDArray[np.float64]
ATTACKS = ("views", "fixed", "noise")
ASCENTS, RIDGE = 8, 1e-3
"""How often the disagreement of views is increased for one observation, and the ridge of the maps between views."""


@dataclass(frozen=True)
class Attacked(WrappedWorld):
    """`world`, in which every number that an agent sees is off by `budget` at most; rewards and states are true.

    `views`: maps from each agent's view to each other's are fitted to `collected` observations of random play, and the
    views of a moment are moved, all together, to where they contradict each other most by these maps. `fixed`: no
    access at all; agents see everything too large and too small in turn. `noise`: every number up or down by chance.

    Attributes:
        attack: one of these. budget: the largest change, 0 changes nothing. collected: joint observations, for `views`.
    """

    attack: str = "views"
    budget: float = 0.1
    collected: int = 1000

    def __post_init__(self) -> None:
        if self.attack not in ATTACKS:
            hint = nearest(self.attack, ATTACKS) or f"; choose from {', '.join(ATTACKS)}"
            raise ConfigurationError(f"task {self.world.name}: there is no attack {self.attack!r}{hint}")
        if self.budget < 0 or self.collected < 2:
            raise ConfigurationError(
                f"task {self.world.name}: an attack needs a budget of at least 0 and 2 or more collected observations, "
                f"not {self.budget} and {self.collected}"
            )
        if self.attack == "views" and len(self.agents) < 2:
            raise ConfigurationError(
                f"task {self.world.name}: one agent has no other's view; use attack=noise or fixed"
            )

    def open(self, width: int) -> JointEnvironment:
        return _Misled(self, width)


class _Misled(WrappedCourse):
    def __init__(self, world: Attacked, width: int) -> None:
        super().__init__(world.world.open(width))
        self.world = world
        self._words, self._time = np.zeros((width, 1), np.uint64), np.zeros(width, np.int64)
        self._sizes = [seat.observations for seat in world.seats]

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            self._words[slot], self._time[slot] = Key.of(seed).derive("attack").word, 0
        return self._course.reset(slots, seeds)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        self._time = self._time + live
        return self._course.step(actions, live)

    def seen(self) -> list[NDArray[np.float32]]:
        true = np.concatenate(self._course.seen(), 1).astype(np.float64)
        if self.world.budget:
            true = true + self.world.budget * self._signs(true)
        return [part.astype(np.float32) for part in np.split(true, np.cumsum(self._sizes)[:-1], 1)]

    def _signs(self, true: Floats) -> Floats:
        """Where each number is pushed, `[B, D]` of -1 and 1."""
        if self.world.attack == "fixed":
            turn = [np.full(size, 1.0 - 2.0 * (number % 2)) for number, size in enumerate(self._sizes)]
            return np.broadcast_to(np.concatenate(turn), true.shape)
        if self.world.attack == "noise":
            counters = (self._time[:, None] * true.shape[1] + np.arange(true.shape[1])).astype(np.uint64)
            return np.where(uniforms(self._words, counters) < 0.5, -1.0, 1.0)
        maps = fitted(cast(Hashable, self.world.world), self.world.collected)
        return most_contradicting(maps, true, self.world.budget)


@dataclass(frozen=True, eq=False)
class Contradiction:
    """The residual of all views by the maps between them is `matrix x + offset`, for x all views together `[D]`."""

    matrix: Floats
    offset: Floats


def most_contradicting(maps: Contradiction, views: Floats, budget: float) -> Floats:
    """The signs s `[B, D]` by which `|matrix (x + budget s) + offset|^2` rises far above that of the views x `[B, D]`.

    The square is convex in s, so going to the corner that its slope points to never lowers it; this is done a few times
    from the corner that the largest singular vector points to, on the side on which the slope of the views lies.
    """
    square = maps.matrix.T @ maps.matrix
    slope = _rows(views, square) + maps.offset @ maps.matrix
    first = np.linalg.eigh(square)[1][:, -1]
    signs = _sign(first)[None] * _sign((slope * first).sum(1))[:, None]
    for _ in range(ASCENTS):
        signs = _sign(slope + budget * _rows(signs, square))
    return signs


def _rows(rows: Floats, matrix: Floats) -> Floats:
    """Their product; that of a row does not depend on how many there are."""
    found: Floats = np.einsum("bd,de->be", rows, matrix)
    return found


def _sign(of: Floats) -> Floats:
    return np.where(of < 0, -1.0, 1.0)


@lru_cache(maxsize=8)
def fitted(played: Hashable, collected: int) -> Contradiction:
    """Linear maps from each view to each other's, by ridge regression on observations of random play of a world."""
    world = cast(JointWorld, played)
    views = _gathered(world, collected)
    deviation = views.std(0)
    spread = np.where(deviation > 1e-6, deviation, np.inf)  # What never changes contradicts nothing.
    sizes = [seat.observations for seat in world.seats]
    ends = np.cumsum([0, *sizes])
    rows, offsets = [], []
    for one in range(len(sizes)):
        mine = views[:, ends[one] : ends[one + 1]]
        centred = mine - mine.mean(0)
        inverse = np.linalg.solve(centred.T @ centred + RIDGE * len(views) * np.eye(sizes[one]), centred.T)
        for other in range(len(sizes)):
            if other == one:
                continue
            theirs = views[:, ends[other] : ends[other + 1]]
            weight = (inverse @ (theirs - theirs.mean(0))).T
            scale = spread[ends[other] : ends[other + 1], None]
            row = np.zeros((sizes[other], views.shape[1]))
            row[:, ends[one] : ends[one + 1]] = weight / scale
            row[:, ends[other] : ends[other + 1]] -= np.eye(sizes[other]) / scale
            rows.append(row)
            offsets.append((theirs.mean(0) - weight @ mine.mean(0)) / scale[:, 0])
    return Contradiction(np.concatenate(rows), np.concatenate(offsets))


def _gathered(world: JointWorld, collected: int) -> Floats:
    """Joint observations of random play from seeds of its own, `[N, D]`."""
    course, key = world.open(16), Key.of(0).derive("attack", "views").numpy()
    found: list[Floats] = []
    alive = np.zeros((16, len(world.agents)), bool)
    began = 0
    while sum(map(len, found)) < collected:
        over = np.flatnonzero(~alive.any(1))
        course.reset(over.tolist(), [2**31 + began + place for place in range(len(over))])
        began += len(over)
        alive[over] = True
        found.append(np.concatenate(course.seen(), 1).astype(np.float64))
        moves = [_moves(seat, mask, key) for seat, mask in zip(world.seats, _masks(course, world), strict=True)]
        moved = course.step(moves, np.ones(16, bool))
        alive &= ~(moved.terminated | moved.truncated)
    course.close()
    return np.concatenate(found)[:collected]


def _masks(course: JointEnvironment, world: JointWorld) -> Sequence[NDArray[np.bool_] | None]:
    return list(course.allowed()) or [None] * len(world.agents)


def _moves(seat: Seat, mask: NDArray[np.bool_] | None, noise: np.random.Generator) -> NDArray[Any]:
    if not seat.discrete:
        return noise.normal(size=(16, seat.actions)).astype(np.float32)
    drawn = noise.random((16, seat.actions)) * (1.0 if mask is None else mask + 1e-9)
    return np.asarray(drawn.argmax(1))


ATTACK = WorldWrapper(
    name="attack=NAME&budget=NUMBER&collected=COUNT",
    description="what agents see is a little wrong: by an attack, within a budget, made from so many observations",
    settings={"attack": str, "budget": float, "collected": int},
    layer=4,
    wrap=Attacked,
)
