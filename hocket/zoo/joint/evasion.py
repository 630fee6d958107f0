"""A particle world whose entities come and go: a team flees from pursuers, and more appear on the way, in numpy.

After Repel of MPEv2 (FlickerFusion, arXiv:2410.15876), with the physics of
`hocket.zoo.joint.particles`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointEnvironment, Moved, Plane, Seat, Slots
from hocket.zoo.joint.particles import DAMPING, HUNTER, MOVES, PREY, STEP, drawn_from, repel

Floats = NDArray[np.float64]

FRIGHT = 0.6
"""How near a pursuer costs something."""

ROW, OWN = 5, 4
"""Numbers of a row, whether anybody is there, where from here and how fast; and of what is seen of oneself."""

CHANGES = 0.3, 0.7
"""Between which shares of an episode pursuers come and go."""

AWAY = 100.0
"""Where those are who are not there: so far from anybody, and from each other, that nothing acts on them."""


@dataclass(frozen=True)
class Flee:
    """Agents flee from pursuers, who run after whoever is nearest, a little slower; pursuers come and go meanwhile.

    At every step an agent loses `1 - d / 0.6` for each pursuer at a distance d of less than 0.6, and for leaving the
    field what prey loses in tag. It sees its velocity and position, and behind them a row for each pursuer (`Slots`):
    where it is from there, and how fast it runs. Rows hold those who are there, in the order in which they came. The
    joint state is the places and speeds of all, 0 of those who are not there.

    How many there are is drawn evenly in every episode from ranges: those there from the beginning, those who come
    later, and those of the first who leave, each at a step of the middle of the episode.

    Attributes:
        count: agents. pursuers, come, go: numbers such as `3`, or ranges such as `1-3`. length: steps of an episode.
        room: rows for pursuers, so that worlds of other ranges show as many numbers.
    """

    count: int = 2
    pursuers: str = "1-3"
    come: str = "0-1"
    go: str = "0-1"
    length: int = 30
    room: int = 8

    def __post_init__(self) -> None:
        if self.count < 1 or self.length < 2:
            raise ConfigurationError(
                f"task mpe:flee needs an agent and 2 steps at least, not {self.count} and {self.length}"
            )
        most = self.range("pursuers")[1] + self.range("come")[1]
        if not 1 <= most <= self.room:
            raise ConfigurationError(
                f"task mpe:flee: up to {most} pursuers come, and room = {self.room} rows show them; let there be one "
                "at least, and room for all"
            )

    def range(self, name: str) -> tuple[int, int]:
        """The least and most of `pursuers`, `come` or `go`."""
        text = str(getattr(self, name))
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
        least, most = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if least > most:
            raise ConfigurationError(f"task mpe:flee: {name} = {text!r} is no number and no range; write 3 or 1-3")
        return least, most

    @property
    def name(self) -> str:
        return "mpe:flee"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"agent_{number}" for number in range(self.count))

    @property
    def seats(self) -> tuple[Seat, ...]:
        slots = Slots(OWN, self.room, ROW)
        plane = Plane(((0, 1), (2, 3)), ((1, 2), (3, 4)), tuple((int(x), int(y)) for x, y in MOVES))
        return (Seat(OWN + self.room * ROW, len(MOVES), slots=slots, plane=plane),) * self.count

    @property
    def joint(self) -> int:
        return 4 * self.count + ROW * self.room

    def open(self, width: int) -> JointEnvironment:
        return _Flight(self, width)


class _Flight(JointEnvironment):
    """Bodies `[B, count + room]`, agents first; pursuer p is there at the steps `since[:, p] <= t < until[:, p]`."""

    fixed = frozenset({"radius", "push", "fastest", "parked", "pairs"})

    def __init__(self, world: Flee, width: int) -> None:
        self.world, self.bodies = world, world.count + world.room
        hunts = np.arange(self.bodies) >= world.count
        self.radius = np.where(hunts, HUNTER, PREY)
        self.push, self.fastest = np.where(hunts, 3.0, 4.0)[:, None], np.where(hunts, 1.0, 1.3)
        self.parked = AWAY * (1 + np.arange(self.bodies, dtype=np.float64))[:, None].repeat(2, 1)
        self.place, self.speed = np.tile(self.parked, (width, 1, 1)), np.zeros((width, self.bodies, 2))
        self.entry = np.zeros((width, world.room, 2))
        self.since, self.until = (np.zeros((width, world.room), np.int64) for _ in range(2))
        self.time, self.pairs = np.zeros(width, np.int64), np.triu_indices(self.bodies, 1)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        world = self.world
        for slot, seed in zip(slots, seeds, strict=True):
            draw = drawn_from(seed)
            first, later, gone = (int(draw.integers(*world.range(name), endpoint=True)) for name in _RANGES)
            early, late = (max(1, round(share * world.length)) for share in CHANGES)
            times = draw.integers(early, late, (2, world.room), endpoint=True)
            number = np.arange(world.room)
            self.since[slot] = np.where(number < first, 0, np.where(number < first + later, times[0], world.length + 1))
            self.until[slot] = np.where(number < min(gone, first), times[1], world.length + 1)
            self.place[slot, : world.count] = draw.uniform(-0.5, 0.5, (world.count, 2))
            along, side = draw.uniform(-1, 1, world.room), draw.integers(0, 4, world.room)
            edge = np.where(side % 2, 1.0, -1.0)
            self.entry[slot] = np.where((side < 2)[:, None], np.stack([edge, along], 1), np.stack([along, edge], 1))
            self.time[slot], self.speed[slot] = 0, 0.0
        self._enter()
        return {}

    @property
    def there(self) -> NDArray[np.bool_]:
        """Which pursuers are there now, `[B, room]`."""
        return (self.since <= self.time[:, None]) & (self.time[:, None] < self.until)

    def _enter(self) -> None:
        """Puts those who come now at the edge, and takes away those who are not there."""
        count, there, fresh = self.world.count, self.there, self.since == self.time[:, None]
        hunters = np.where((fresh & there)[..., None], self.entry, self.place[:, count:])
        self.place[:, count:] = np.where(there[..., None], hunters, self.parked[count:])
        self.speed[:, count:] = np.where((there & ~fresh)[..., None], self.speed[:, count:], 0.0)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        count = self.world.count
        wanted = np.concatenate([MOVES[np.stack(actions, 1)], self._towards()], 1)
        force = self.push * wanted
        repel(force, self.place, self.radius, self.pairs)
        self.place = self.place + self.speed * STEP
        self.speed = self.speed * (1 - DAMPING) + force * STEP
        fast = np.sqrt((self.speed**2).sum(-1))
        self.speed *= np.minimum(1.0, self.fastest / np.maximum(fast, 1e-300))[..., None]
        rewards = self._rewards()
        self.time = self.time + live
        self._enter()
        over = np.repeat((self.time >= self.world.length)[:, None], count, 1)
        return Moved(rewards, np.zeros_like(over), over)

    def _apart(self) -> tuple[Floats, Floats]:
        """From each pursuer to each agent `[B, room, count, 2]`, and how far that is."""
        gap = self.place[:, None, : self.world.count] - self.place[:, self.world.count :, None]
        return gap, np.sqrt((gap**2).sum(-1))

    def _towards(self) -> Floats:
        """Where each pursuer runs, `[B, room, 2]` of length 1; 0 of those who are not there."""
        gap, far = self._apart()
        nearest = far.argmin(2)[..., None]
        chosen = np.take_along_axis(gap, nearest[..., None], 2)[:, :, 0]
        length = np.take_along_axis(far, nearest, 2)
        return np.where(self.there[..., None], chosen / np.maximum(length, 1e-300), 0.0)

    def _rewards(self) -> Floats:
        fright = np.maximum(0.0, 1 - self._apart()[1] / FRIGHT) * self.there[..., None]
        out = np.abs(self.place[:, : self.world.count])
        cost = np.where(out < 0.9, 0.0, np.where(out < 1, 10 * (out - 0.9), np.minimum(np.exp(2 * out - 2), 10)))
        paid: Floats = -fright.sum(1) - cost.sum(-1)
        return paid

    def seen(self) -> list[NDArray[np.float32]]:
        width, count, there = len(self.time), self.world.count, self.there
        order = np.argsort(np.where(there, self.since, self.world.length + 2), 1, kind="stable")
        shown, sights = np.take_along_axis(there, order, 1)[..., None], []
        place = np.take_along_axis(self.place[:, count:], order[..., None], 1)
        speed = np.take_along_axis(self.speed[:, count:], order[..., None], 1)
        for number in range(count):
            rows = np.concatenate([np.ones_like(shown, float), place - self.place[:, [number]], speed], 2)
            rows = np.where(shown, rows, 0.0).reshape(width, -1)
            parts = [self.speed[:, number], self.place[:, number], rows]
            sights.append(np.concatenate(parts, 1).astype(np.float32))
        return sights

    def state(self) -> NDArray[np.float32]:
        width, count, there = len(self.time), self.world.count, self.there[..., None]
        agents = np.concatenate([self.place[:, :count], self.speed[:, :count]], 2).reshape(width, -1)
        rows = np.concatenate([np.ones_like(there, float), self.place[:, count:], self.speed[:, count:]], 2)
        return np.concatenate([agents, np.where(there, rows, 0.0).reshape(width, -1)], 1).astype(np.float32)


_RANGES = ("pursuers", "come", "go")
