"""Particle worlds: discs that push each other on a plane (Lowe et al., arXiv:1706.02275), in numpy.

The physics and numbers are those of mpe2 (MIT licence), without its drawing: equal moves give equal episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.worlds import JointEnvironment, Moved, Plane, Seat, Slots

Floats = NDArray[np.float64]

STEP, DAMPING, FORCE, SOFTNESS, PUSH, RADIUS = 0.1, 0.25, 100.0, 1e-3, 5.0, 0.15
"""Seconds of a step, the share of speed lost in it, how hard discs repel, how soft they are, what a move pushes with,
and how large an agent is."""

MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], np.float64)
"""Stay, left, right, down, up."""

HUNTER, PREY, OBSTACLE = 0.075, 0.05, 0.2
"""Radii."""

COLOURS = 0.15 + 0.5 * np.eye(3)
"""By which a speaker knows the goal."""


@dataclass(frozen=True)
class Spread:
    """Cooperative navigation: N agents cover N landmarks without bumping into each other (`simple_spread_v3`).

    At every step all earn `-sum over landmarks of the distance of the nearest agent`, in the share `1 - local`, and
    each loses 1 per collision of its own, in the share `local`. An agent sees its velocity and position, and where
    landmarks and others are from there; then 2 zeros per other agent, upstream's silent words. The joint state is all
    positions, velocities and landmarks.

    Attributes:
        count: agents and landmarks. local: the share of an agent's own reward, in [0, 1]. length: steps of an episode,
            which a limit of time ends.
        hidden: landmarks are left out of what agents see, and only the joint state tells of them.
        own: every agent has a landmark of its own, which it sees before the others, and in the share `1 - local` it
            earns minus its own distance of it.
        graph: agents see others as neighbours in a graph: behind its velocity, its position and where landmarks are
            from there, an agent has a row for each other (`Slots`), with where that one is from there and what it sees
            itself. reach: how near neighbours are; 0 for any distance.
        rows: agents see everything but themselves as rows: behind its velocity and position an agent has a row for each
            other agent and each landmark, with whether it is an agent and where it is from there. So no size but the
            number of rows depends on how many there are.
    """

    count: int = 3
    local: float = 0.5
    length: int = 25
    hidden: bool = False
    own: bool = False
    graph: bool = False
    reach: float = 0.0
    rows: bool = False

    def __post_init__(self) -> None:
        if self.rows and (self.graph or self.hidden or self.own):
            raise ConfigurationError(
                "task mpe:spread: rows=true shows every agent and landmark alike; drop graph, hidden and own"
            )
        if self.count < 1 or self.length < 1 or not 0 <= self.local <= 1:
            raise ConfigurationError(
                f"task mpe:spread needs agents and length of at least 1 and local in [0, 1], not {self.count}, "
                f"{self.length} and {self.local}"
            )
        if self.graph and self.count < 2:
            raise ConfigurationError("task mpe:spread: a graph needs 2 agents at least; drop graph")
        if self.reach < 0 or (self.reach and not self.graph):
            raise ConfigurationError(
                f"task mpe:spread: reach = {self.reach} says how near neighbours in a graph are; it is at least 0, and "
                "needs graph=true"
            )

    @property
    def name(self) -> str:
        return "mpe:spread"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"agent_{number}" for number in range(self.count))

    @property
    def seats(self) -> tuple[Seat, ...]:
        landmarks = 0 if self.hidden else 2 * self.count
        if self.rows:
            slots = Slots(4, 2 * self.count - 1, 4)
            plane = Plane(_pairs(0, 4), _pairs(2, 4), tuple((int(x), int(y)) for x, y in MOVES))
            return (Seat(4 + slots.count * slots.size, len(MOVES), slots=slots, plane=plane),) * self.count
        if not self.graph:
            return (Seat(4 + landmarks + 4 * (self.count - 1), len(MOVES)),) * self.count
        own_size = 4 + landmarks
        slots = Slots(own_size, self.count - 1, 3 + own_size)
        plane = Plane(_pairs(0, own_size), _pairs(1, own_size + 2), tuple((int(x), int(y)) for x, y in MOVES))
        return (Seat(own_size + slots.count * slots.size, len(MOVES), slots=slots, plane=plane),) * self.count

    @property
    def joint(self) -> int:
        return 6 * self.count

    def open(self, width: int) -> JointEnvironment:
        return _Spread(self, width)


def _pairs(first: int, numbers: int) -> tuple[tuple[int, int], ...]:
    """Places of vectors one behind the other."""
    return tuple((place, place + 1) for place in range(first, first + numbers, 2))


class _Spread(JointEnvironment):
    fixed = frozenset({"radius", "others", "marks", "pairs"})

    def __init__(self, world: Spread, width: int) -> None:
        self.world, count = world, world.count
        self.place, self.speed, self.landmark = (np.zeros((width, count, 2)) for _ in range(3))
        self.place += np.arange(count)[:, None]  # Idle copies are apart, so that nothing is divided by 0.
        self.time = np.zeros(width, np.int64)
        self.pairs, self.radius = np.triu_indices(count, 1), np.full(count, RADIUS)
        self.others = [[other for other in range(count) if other != number] for number in range(count)]
        self.marks = [[number, *self.others[number]] if world.own else list(range(count)) for number in range(count)]

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            drawn = drawn_from(seed).uniform(-1, 1, (2 * self.world.count, 2))
            self.place[slot], self.landmark[slot] = np.split(drawn, 2)
            self.speed[slot], self.time[slot] = 0.0, 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        force = PUSH * MOVES[np.stack(actions, 1)]
        repel(force, self.place, self.radius, self.pairs)
        self.place = self.place + self.speed * STEP
        self.speed = self.speed * (1 - DAMPING) + force * STEP
        self.time = self.time + live
        over = np.repeat((self.time >= self.world.length)[:, None], self.world.count, 1)
        return Moved(self._rewards(), np.zeros_like(over), over)

    def _rewards(self) -> Floats:
        gap = self.place[:, :, None] - self.landmark[:, None]
        away = np.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2)
        if self.world.own:
            covered = -np.diagonal(away, axis1=1, axis2=2)
        else:
            covered = np.zeros((len(away), 1))
            for landmark in range(self.world.count):
                covered -= away[:, :, landmark].min(1)[:, None]
        bumps = np.zeros((len(away), self.world.count))
        first, second = self.pairs
        gap = self.place[:, first] - self.place[:, second]
        touching = np.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2) < 2 * RADIUS
        for pair in range(len(first)):
            bumps[:, first[pair]] -= touching[:, pair]
            bumps[:, second[pair]] -= touching[:, pair]
        return covered * (1 - self.world.local) + bumps * self.world.local

    def seen(self) -> list[NDArray[np.float32]]:
        if self.world.graph:
            return self._in_graph()
        if self.world.rows:
            return self._in_rows()
        width, count = len(self.time), self.world.count
        silent = np.zeros((width, 2 * (count - 1)))
        sights = []
        for number in range(count):
            place = self.place[:, number]
            marks = (self.landmark[:, self.marks[number]] - place[:, None]).reshape(width, -1)
            near = (self.place[:, self.others[number]] - place[:, None]).reshape(width, -1)
            parts = [self.speed[:, number], place, *(() if self.world.hidden else (marks,)), near, silent]
            sights.append(np.concatenate(parts, 1).astype(np.float32))
        return sights

    def _in_graph(self) -> list[NDArray[np.float32]]:
        """What everybody sees and hears of its neighbours, row by row."""
        width, count = len(self.time), self.world.count
        parts = [self.speed, self.place]
        if not self.world.hidden:
            parts.append((self.landmark[:, self.marks] - self.place[:, :, None]).reshape(width, count, -1))
        sights, views = np.concatenate(parts, 2), []
        for number in range(count):
            others = self.others[number]
            gap = self.place[:, others] - self.place[:, [number]]
            near = (gap**2).sum(2, keepdims=True) <= (self.world.reach or np.inf) ** 2
            rows = np.where(near, np.concatenate([np.ones_like(gap[..., :1]), gap, sights[:, others]], 2), 0.0)
            views.append(np.concatenate([sights[:, number], rows.reshape(width, -1)], 1).astype(np.float32))
        return views

    def _in_rows(self) -> list[NDArray[np.float32]]:
        """What everybody sees of itself, then of each other agent and each landmark, row by row."""
        width, count = len(self.time), self.world.count
        sights = []
        for number in range(count):
            place = self.place[:, number]
            others = np.concatenate([self.place[:, self.others[number]], self.landmark], 1) - place[:, None]
            kind = np.ones((width, 2 * count - 1, 2))
            kind[:, count - 1 :, 1] = 0.0
            rows = np.concatenate([kind, others], 2).reshape(width, -1)
            sights.append(np.concatenate([self.speed[:, number], place, rows], 1).astype(np.float32))
        return sights

    def state(self) -> NDArray[np.float32]:
        parts = (self.place, self.speed, self.landmark)
        return np.concatenate([part.reshape(len(self.time), -1) for part in parts], 1).astype(np.float32)


@dataclass(frozen=True)
class Tag:
    """Slow hunters together catch faster prey among obstacles (`simple_tag_v3`).

    Every touch of a hunter and a prey earns all hunters 10 and costs that prey 10; leaving the field costs prey more
    the farther out it is. An agent sees its velocity and position, and where obstacles and others are from there, and
    the velocities of prey other than itself. The joint state is all positions, velocities and obstacles.

    Attributes:
        hunters, count, obstacles: how many hunters, prey and obstacles. length: steps of an episode.
    """

    hunters: int = 3
    count: int = 1
    obstacles: int = 2
    length: int = 25

    def __post_init__(self) -> None:
        if self.hunters < 1 or self.count < 1 or self.length < 1 or self.obstacles < 0:
            raise ConfigurationError(
                f"task mpe:tag needs hunters, prey (agents) and length of at least 1 and no negative obstacles, not "
                f"{self.hunters}, {self.count}, {self.length} and {self.obstacles}"
            )

    @property
    def name(self) -> str:
        return "mpe:tag"

    @property
    def agents(self) -> tuple[str, ...]:
        hunters = (f"adversary_{number}" for number in range(self.hunters))
        return (*hunters, *(f"agent_{number}" for number in range(self.count)))

    @property
    def seats(self) -> tuple[Seat, ...]:
        others, common = self.hunters + self.count - 1, 4 + 2 * self.obstacles
        hunter = Seat(common + 2 * others + 2 * self.count, len(MOVES))
        prey = Seat(common + 2 * others + 2 * (self.count - 1), len(MOVES))
        return (hunter,) * self.hunters + (prey,) * self.count

    @property
    def joint(self) -> int:
        return 4 * (self.hunters + self.count) + 2 * self.obstacles

    def open(self, width: int) -> JointEnvironment:
        return _Tag(self, width)


class _Tag(JointEnvironment):
    fixed = frozenset({"radius", "push", "fastest", "pairs"})

    def __init__(self, world: Tag, width: int) -> None:
        self.world, self.size = world, world.hunters + world.count
        bodies = self.size + world.obstacles
        hunts = np.arange(bodies) < world.hunters
        self.radius = np.where(hunts, HUNTER, np.where(np.arange(bodies) < self.size, PREY, OBSTACLE))
        self.push = np.where(hunts[: self.size], 3.0, 4.0)[:, None]
        self.fastest = np.where(hunts[: self.size], 1.0, 1.3)
        self.place, self.speed = np.zeros((width, bodies, 2)), np.zeros((width, self.size, 2))
        self.place += np.arange(bodies)[:, None]  # Idle copies are apart, so that nothing is divided by 0.
        self.time = np.zeros(width, np.int64)
        first, second = np.triu_indices(bodies, 1)
        self.pairs = first[first < self.size], second[first < self.size]

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            draw = drawn_from(seed)
            self.place[slot, : self.size] = draw.uniform(-1, 1, (self.size, 2))
            self.place[slot, self.size :] = draw.uniform(-0.9, 0.9, (self.world.obstacles, 2))
            self.speed[slot], self.time[slot] = 0.0, 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        force = self.push * MOVES[np.stack(actions, 1)]
        repel(force, self.place, self.radius, self.pairs)
        self.place[:, : self.size] += self.speed * STEP
        self.speed = self.speed * (1 - DAMPING) + force * STEP
        fast = np.sqrt(self.speed[..., 0] ** 2 + self.speed[..., 1] ** 2)
        slowed = self.speed / np.maximum(fast, 1e-300)[..., None] * self.fastest[:, None]
        self.speed = np.where((fast > self.fastest)[..., None], slowed, self.speed)
        self.time = self.time + live
        over = np.repeat((self.time >= self.world.length)[:, None], self.size, 1)
        return Moved(self._rewards(), np.zeros_like(over), over)

    def _rewards(self) -> Floats:
        hunters = self.world.hunters
        prey = self.place[:, hunters : self.size]
        gap = self.place[:, :hunters, None] - prey[:, None]
        touching = np.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2) < HUNTER + PREY
        out = np.abs(prey)
        cost = np.where(out < 0.9, 0.0, np.where(out < 1, 10 * (out - 0.9), np.minimum(np.exp(2 * out - 2), 10)))
        caught = 10.0 * touching.sum((1, 2))
        hunted = np.repeat(caught[:, None], hunters, 1)
        return np.concatenate([hunted, -10.0 * touching.sum(1) - cost.sum(-1)], 1)

    def seen(self) -> list[NDArray[np.float32]]:
        width, sights = len(self.time), []
        for number in range(self.size):
            place = self.place[:, number]
            others = [other for other in range(self.size) if other != number]
            running = [other for other in others if other >= self.world.hunters]
            obstacles = (self.place[:, self.size :] - place[:, None]).reshape(width, -1)
            near = (self.place[:, others] - place[:, None]).reshape(width, -1)
            parts = [self.speed[:, number], place, obstacles, near, self.speed[:, running].reshape(width, -1)]
            sights.append(np.concatenate(parts, 1).astype(np.float32))
        return sights

    def state(self) -> NDArray[np.float32]:
        width = len(self.time)
        return np.concatenate([self.place.reshape(width, -1), self.speed.reshape(width, -1)], 1).astype(np.float32)


@dataclass(frozen=True)
class SpeakerListener:
    """One knows which of three landmarks is the goal and may say one of three words; the other hears it and walks.

    Both earn less the squared distance of the listener from the goal (`simple_speaker_listener_v4`). The speaker sees
    the goal's colour; the listener its velocity, where the landmarks are from there, and the word of the step before.
    The joint state is what both see.

    Attributes:
        length: steps of an episode.
    """

    length: int = 25

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigurationError(f"task mpe:speaker-listener needs a length of at least 1, not {self.length}")

    @property
    def name(self) -> str:
        return "mpe:speaker-listener"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("speaker_0", "listener_0")

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(3, 3), Seat(11, len(MOVES)))

    @property
    def joint(self) -> int:
        return 14

    def open(self, width: int) -> JointEnvironment:
        return _SpeakerListener(self, width)


class _SpeakerListener(JointEnvironment):
    def __init__(self, world: SpeakerListener, width: int) -> None:
        self.world = world
        self.goal, self.time = np.zeros(width, np.int64), np.zeros(width, np.int64)
        self.place, self.speed, self.word = np.zeros((width, 2)), np.zeros((width, 2)), np.zeros((width, 3))
        self.landmark = np.zeros((width, 3, 2))

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            draw = drawn_from(seed)
            self.goal[slot] = draw.integers(3)
            places = draw.uniform(-1, 1, (5, 2))  # The first is the speaker's, which nobody sees.
            self.place[slot], self.landmark[slot] = places[1], places[2:]
            self.speed[slot], self.word[slot], self.time[slot] = 0.0, 0.0, 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        self.place = self.place + self.speed * STEP
        self.speed = self.speed * (1 - DAMPING) + PUSH * MOVES[actions[1]] * STEP
        self.word = np.eye(3)[actions[0]]
        self.time = self.time + live
        gap = self.place - self.landmark[np.arange(len(self.goal)), self.goal]
        paid = np.repeat(-(gap[:, 0] ** 2 + gap[:, 1] ** 2)[:, None], 2, 1)
        over = np.repeat((self.time >= self.world.length)[:, None], 2, 1)
        return Moved(paid, np.zeros_like(over), over)

    def seen(self) -> list[NDArray[np.float32]]:
        marks = (self.landmark - self.place[:, None]).reshape(len(self.goal), -1)
        heard = np.concatenate([self.speed, marks, self.word], 1)
        return [COLOURS[self.goal].astype(np.float32), heard.astype(np.float32)]

    def state(self) -> NDArray[np.float32]:
        return np.concatenate(self.seen(), 1)


def repel(force: Floats, place: Floats, radius: Floats, pairs: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
    """Adds to the forces `[B, n, 2]` what discs that touch do to each other, pair by pair in their order.

    Args:
        place: `[B, E, 2]`, of n that move and others that do not. radius: `[E]`. pairs: their numbers, movers first.
    """
    first, second = pairs
    gap = place[:, first] - place[:, second]
    apart = np.sqrt(gap[..., 0] ** 2 + gap[..., 1] ** 2)
    depth = np.logaddexp(0, (radius[first] + radius[second] - apart) / SOFTNESS) * SOFTNESS
    push = gap * (FORCE * depth / np.maximum(apart, 1e-300))[..., None]
    for pair in range(len(first)):
        force[:, first[pair]] += push[:, pair]
        if second[pair] < force.shape[1]:
            force[:, second[pair]] -= push[:, pair]


def drawn_from(seed: int) -> np.random.Generator:
    """The generator that Gymnasium makes of a seed, so that seeds mean the same episode as upstream."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
