"""A skirmish on a grid, in the manner of the StarCraft tasks of SMAC (Samvelyan et al., arXiv:1902.04043), in numpy.

Written from the description of those tasks: no rule or number is StarCraft's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
"""Stay, north, south, west, east; the actions after them attack foe 0, 1, .."""

ATTACK = len(MOVES)

_OWN, _ALLY, _FOE = 4, 5, 6
"""Numbers that tell of an agent itself, of another, of a foe."""


def forwarded(facts: Bools, links: Bools, hops: int) -> Bools:
    """Which facts each agent has, `[.., n, F]`, when all pass on what they have over `links` `[.., n, n]` `hops` times.

    `facts` are those each agent has at first. A fact of one agent reaches exactly those within so many links of it.
    """
    known = facts
    for _ in range(hops):
        known = known | (links.astype(np.int64) @ known.astype(np.int64) > 0)
    return known


@dataclass(frozen=True)
class Skirmish:
    """Soldiers that see a few cells around them against scripted foes, which see all.

    A unit attacks one enemy in reach, or goes a step, or stays. A step is of one instant: whoever is attacked loses a
    point of health, also to one who falls in the same step; then those who are left move, none into a cell that anybody
    held at the beginning, and of those who want one cell the first, soldiers before foes. A foe attacks the nearest
    soldier in reach, of equals the first, else it goes towards the nearest. The fallen lie still and see nothing; all
    they may do is stay. Distances are the larger of rows and columns.

    All soldiers earn alike: half of the share of the foes' health that a step takes, and one half more for the last foe
    when a soldier is left, so that a whole victory is worth 1 and nothing else is. The episode terminates when one side
    is gone; a limit of `length` steps truncates it.

    Soldiers begin in a line on the west, `spread` rows apart, foes side by side in the east, from a row that is drawn.
    A soldier sees its own row, column and health and whether it stands; then of each other soldier and each foe that
    stands whether it is known, where it is from here, its health, and whether it is seen from here, of a foe besides
    whether it is in reach. With `hops` it knows those, too, that others report: all pass on what they know, over that
    many links a step, to whoever stands within `radio`. Rows and columns are over the size. The joint state has
    everybody's row, column and health.

    Attributes:
        count, foes: how many. size: rows and columns. sight, reach, radio: how far one sees, attacks and speaks.
        health, strength: points of a soldier and of a foe. spread: rows between soldiers at the start.
    """

    count: int = 3
    foes: int = 3
    size: int = 9
    sight: int = 3
    reach: int = 2
    radio: int = 4
    hops: int = 0
    health: int = 4
    strength: int = 4
    spread: int = 2
    length: int = 40

    def __post_init__(self) -> None:
        least = {"count": 1, "foes": 1, "sight": 1, "reach": 1, "health": 1, "strength": 1, "spread": 1, "length": 1}
        for name, low in {**least, "radio": 0, "hops": 0}.items():
            if getattr(self, name) < low:
                raise ConfigurationError(f"task {self.name}: {name} = {getattr(self, name)}; at least {low}")
        rows = max((self.count - 1) * self.spread + 1, self.foes)
        if self.size < max(rows, 5):
            raise ConfigurationError(
                f"task {self.name}: size = {self.size}; the lines of both sides need at least {max(rows, 5)} rows"
            )
        if self.reach > self.sight:
            raise ConfigurationError(
                f"task {self.name}: reach = {self.reach} is beyond sight = {self.sight}; nobody attacks what is unseen"
            )

    @property
    def name(self) -> str:
        return f"skirmish:{self.count}v{self.foes}"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"soldier_{number}" for number in range(self.count))

    @property
    def seats(self) -> tuple[Seat, ...]:
        size = _OWN + _ALLY * (self.count - 1) + _FOE * self.foes
        return (Seat(size, ATTACK + self.foes),) * self.count

    @property
    def joint(self) -> int:
        return 3 * (self.count + self.foes)

    def open(self, width: int) -> Battlefield:
        return Battlefield(self, width)


class Battlefield(JointEnvironment):
    """Many copies. `place` `[B, n + m, 2]`, `health` `[B, n + m]`, soldiers first, and `time` `[B]` are open."""

    fixed = frozenset({"_slots"})

    def __init__(self, world: Skirmish, width: int) -> None:
        self.world, self.n, units = world, world.count, world.count + world.foes
        self.place, self.health = np.zeros((width, units, 2), int), np.zeros((width, units), int)
        self.time = np.zeros(width, int)
        self._slots = np.arange(width)[:, None]

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            self.place[slot] = _lined_up(self.world, seed)
            self.health[slot, : self.n], self.health[slot, self.n :] = self.world.health, self.world.strength
            self.time[slot] = 0
        return {}

    # ------------------------------------------------------------ what is known

    def away(self) -> Ints:
        """Distances between all units, `[B, n + m, n + m]`."""
        distances: Ints = np.abs(self.place[:, :, None] - self.place[:, None]).max(-1)
        return distances

    @property
    def standing(self) -> Bools:
        """Who is left, `[B, n + m]`."""
        up: Bools = self.health > 0
        return up

    def sees(self) -> Bools:
        """Which units each soldier sees itself, `[B, n, n + m]`; itself among them while it stands."""
        up = self.standing
        near: Bools = self.away()[:, : self.n] <= self.world.sight
        return near & up[:, : self.n, None] & up[:, None]

    def links(self) -> Bools:
        """Which soldiers hear each other, `[B, n, n]`."""
        up = self.standing[:, : self.n]
        near: Bools = self.away()[:, : self.n, : self.n] <= self.world.radio
        return near & up[:, :, None] & up[:, None]

    def knows(self) -> Bools:
        """Which units each soldier sees or has a report of, `[B, n, n + m]`."""
        return forwarded(self.sees(), self.links(), self.world.hops)

    def in_reach(self) -> Bools:
        """Which units stand within a standing unit's reach, `[B, n + m, n + m]`."""
        up = self.standing
        near: Bools = self.away() <= self.world.reach
        return near & up[:, :, None] & up[:, None]

    def won(self) -> Bools:
        """Where no foe is left, and a soldier is, `[B]`."""
        up = self.standing
        victory: Bools = np.asarray(up[:, : self.n].any(1)) & ~np.asarray(up[:, self.n :].any(1))
        return victory

    # ------------------------------------------------------------ a step

    def step(self, actions: Sequence[NDArray[Any]], live: Bools) -> Moved:
        chosen, reach = np.stack(actions, 1).astype(int), self.in_reach()
        walk, target = self._foes(reach)
        walk[:, : self.n] = np.where((chosen < ATTACK)[..., None], MOVES[np.minimum(chosen, ATTACK - 1)], 0)
        target[:, : self.n] = np.where(chosen >= ATTACK, chosen - ATTACK + self.n, -1)
        mask = live[:, None]
        lost = self._hits(target, reach) * mask
        before = self.health[:, self.n :].sum(1)
        health = np.maximum(self.health - lost, 0)
        self.place = np.where((mask & (health > 0))[..., None], self._moved(walk, health > 0), self.place)
        self.health = health
        self.time = self.time + live
        up = health > 0
        won = live & self.won()
        over = ~np.asarray(up[:, : self.n].any(1)) | ~np.asarray(up[:, self.n :].any(1))
        total = self.world.foes * self.world.strength
        paid = 0.5 * (before - health[:, self.n :].sum(1)) / total + 0.5 * won
        every = np.ones((1, self.n), bool)
        late = ~over & (self.time >= self.world.length)
        return Moved(paid[:, None] * every, over[:, None] & every, late[:, None] & every)

    def _foes(self, reach: Bools) -> tuple[Ints, Ints]:
        """Steps `[B, n + m, 2]` and targets `[B, n + m]` of the foes; soldiers' are left empty."""
        walk, target = np.zeros_like(self.place), np.full(self.health.shape, -1)
        far = np.where(self.standing[:, None, : self.n], self.away()[:, self.n :, : self.n], 2 * self.world.size)
        nearest = far.argmin(2)
        hits = np.take_along_axis(reach[:, self.n :, : self.n], nearest[..., None], 2)[..., 0]
        target[:, self.n :] = np.where(hits, nearest, -1)
        gap = self.place[self._slots, nearest] - self.place[:, self.n :]
        walk[:, self.n :] = np.where(hits[..., None], 0, self._towards(gap))
        return walk, target

    def _towards(self, gap: Ints) -> Ints:
        """A step along the longer way, of equals the row; along the other where that cell is held, `[B, m, 2]`."""
        down = np.abs(gap[..., 0]) > np.abs(gap[..., 1])
        sign = np.sign(gap)
        along = np.stack([sign[..., 0] * down, sign[..., 1] * ~down], -1)
        other = sign - along
        held = self._held(self.place[:, self.n :] + along, self.standing)
        return np.where(held[..., None], other, along)

    def _held(self, cells: Ints, up: Bools) -> Bools:
        """Whether a unit that is `up` stands in each of the cells `[B, K, 2]`, `[B, K]`."""
        same = (cells[:, :, None] == self.place[:, None]).all(-1)
        held: Bools = np.asarray((same & up[:, None]).any(-1))
        return held

    def _hits(self, target: Ints, reach: Bools) -> Ints:
        """How often each unit is hit, `[B, n + m]`."""
        aimed = (target[..., None] == np.arange(target.shape[1])) & reach
        hits: Ints = aimed.sum(1)
        return hits

    def _moved(self, walk: Ints, left: Bools) -> Ints:
        """Where everybody is after a step, `[B, n + m, 2]`; `left` are those who are not fallen by now."""
        goal = self.place + walk
        going = left & walk.any(-1) & ((goal >= 0) & (goal < self.world.size)).all(-1)
        going &= ~self._held(goal, self.standing)
        same = (goal[:, :, None] == goal[:, None]).all(-1) & going[:, None]
        first = np.asarray(np.tril(same, -1).any(-1))
        return np.where((going & ~first)[..., None], goal, self.place)

    # ------------------------------------------------------------ what is seen

    def allowed(self) -> list[Bools]:
        up, masks = self.standing, []
        reach = self.in_reach()
        for number in range(self.n):
            goal = self.place[:, number, None] + MOVES[1:]
            inside = ((goal >= 0) & (goal < self.world.size)).all(-1) & up[:, number, None]
            stay = np.ones((len(up), 1), bool)
            masks.append(np.concatenate([stay, inside, reach[:, number, self.n :]], 1))
        return masks

    def seen(self) -> list[NDArray[np.float32]]:
        return [self._seen(number) for number in range(self.n)]

    def _seen(self, number: int) -> NDArray[np.float32]:
        up, size = self.standing[:, number], self.world.size
        sees, reach = self.sees()[:, number], self.in_reach()[:, number]
        share = self.health / np.where(np.arange(self.health.shape[1]) < self.n, self.world.health, self.world.strength)
        gap = (self.place - self.place[:, number, None]) / size
        own_part = np.concatenate([self.place[:, number] / size, share[:, number, None], up[:, None]], 1)
        known = self.knows()[:, number, :, None]
        rows = np.concatenate([known, gap, share[..., None], sees[..., None]], 2) * known
        others = [other for other in range(self.n) if other != number]
        foe = np.concatenate([rows[:, self.n :], reach[:, self.n :, None]], 2)
        parts = [own_part, rows[:, others].reshape(len(up), -1), foe.reshape(len(up), -1)]
        return (np.concatenate(parts, 1) * up[:, None]).astype(np.float32)

    def state(self) -> NDArray[np.float32]:
        units = np.concatenate([self.place / self.world.size, self.health[..., None]], 2)
        return units.reshape(len(self.time), -1).astype(np.float32)


def _lined_up(world: Skirmish, seed: int) -> Ints:
    """Where units begin, `[n + m, 2]`."""
    rng, rows = Key.of(seed).derive("skirmish").numpy(), (world.count - 1) * world.spread + 1
    top = (world.size - rows) // 2
    place = np.empty((world.count + world.foes, 2), int)
    place[: world.count, 0] = top + np.arange(world.count) * world.spread
    place[: world.count, 1] = rng.integers(0, 2, world.count)
    place[world.count :, 0] = rng.integers(0, world.size - world.foes + 1) + np.arange(world.foes)
    place[world.count :, 1] = world.size - 1
    return place
