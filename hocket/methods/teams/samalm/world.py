"""Robots that cross a floor where people walk, in words: social navigation with disc robots.

Robots and people are discs that start on a circle, each opposite to where it wants to go, so that all ways meet. A
robot commands a direction, as seen towards its goal, and a speed, which it keeps for a second; people follow the social
force model. The floor is seen from the robot: how far others are, where, and which way they go.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.protocol import Environment, Observation, same_move
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.methods.teams.samalm.crowd import Floats, SocialForce, least_distances, turned, unit
from hocket.types import Scenario

HEADINGS: Mapping[str, float] = {"ahead": 0.0, "left": 45.0, "right": -45.0}
SPEEDS: Mapping[str, float] = {"fast": 1.0, "slow": 0.5}
STOP = "stop"
COMMANDS = (*(f"{heading} {speed}" for heading in HEADINGS for speed in SPEEDS), STOP)

SECTORS = ("ahead", "left", "far left", "back left", "back", "back right", "far right", "right")
"""Where something is and which way it goes, seen towards the goal, counter-clockwise; commands go in three of them."""

PERIOD, STEP = 1.0, 0.125
"""Seconds between commands, and of a step of the simulation."""

HORIZON = 1.5
"""Seconds that are looked ahead where straight ways are judged."""

VIEW = 2.5
"""Metres up to which others are told; by straight ways nothing farther off is touched within two seconds."""

ARRIVED = 0.3
"""Metres from a goal at which a robot has reached it."""

NEARNESS = 0.5
"""What coming nearer than one's margin costs at most in an episode."""


@dataclass(frozen=True)
class Persona:
    """What a robot is like: its speed when fast, metres a second, and how near it may come to others, metres."""

    name: str
    pace: float
    margin: float

    @property
    def text(self) -> str:
        return f"{self.name}, {self.pace:g} fast, {self.margin:g} apart"


PERSONAS = {
    one.name: one for one in (Persona("careful", 0.8, 0.4), Persona("steady", 1.0, 0.3), Persona("brisk", 1.2, 0.2))
}


@dataclass(frozen=True)
class Crossings:
    """Floors that robots and people cross.

    Attributes:
        robots: how many. people: how many. personas: of the robots in turn, a plus between names.
        length: commands of an episode at most. circle: its radius, metres. yielding: whether people keep away from
            robots as from each other; otherwise they do not notice them.
        sight: so many others are told, the nearest.

    Raises:
        ConfigurationError: for settings out of range.
    """

    robots: int = 3
    people: int = 2
    personas: str = "careful+steady+brisk"
    length: int = 12
    circle: float = 3.0
    yielding: bool = True
    sight: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.robots <= 8 or not 0 <= self.people <= 8 or self.length < 1 or self.sight < 0:
            raise ConfigurationError(
                f"crossing: robots from 1 to 8, people from 0 to 8, length from 1 and sight from 0, not {self.robots}, "
                f"{self.people}, {self.length} and {self.sight}"
            )
        if self.circle < self.least_circle:
            raise ConfigurationError(
                f"crossing: circle = {self.circle:g}; {self.robots + self.people} discs need at least "
                f"{self.least_circle:.2g} metres to stand apart"
            )
        for name in self.personas.split("+"):
            if name not in PERSONAS:
                raise ConfigurationError(f"crossing: personas names {name!r}{nearest(name, PERSONAS)}")

    @property
    def least_circle(self) -> float:
        """The radius at which neighbours on the circle stand two diameters apart."""
        discs = self.robots + self.people
        return 4 * FORCE.radius / (2 * np.sin(np.pi / discs)) / 0.8 if discs > 1 else 1.0

    @property
    def name(self) -> str:
        return f"crossing?robots={self.robots}&people={self.people}"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"robot_{number}" for number in range(1, self.robots + 1))

    @property
    def limit(self) -> int:
        """Commands of an episode, those of all robots together."""
        return self.robots * self.length

    def persona(self, number: int) -> Persona:
        """Of a robot, from 0."""
        names = self.personas.split("+")
        return PERSONAS[names[number % len(names)]]

    def make(self, scenario: Scenario) -> Crossing:
        return Crossing(self)


FORCE = SocialForce()


@dataclass(frozen=True)
class Outlook:
    """What straight ways lead to, for each of some robots.

    Attributes:
        gap: the least to another disc within `HORIZON`, metres. nearest: whose that is, by number.
        progress: how much nearer the goal is after `PERIOD`, metres.
    """

    gap: Floats
    progress: Floats
    nearest: NDArray[np.int64]


class Crossing(Environment):
    """One episode. Arriving earns 1, touching anybody -1 and the end of one's way, nearness a little less than 0.

    In a step in which others are nearer than the robot's margin it pays its share of `NEARNESS`. A command that is
    none stops. Robots that have arrived or touched somebody leave the floor.

    Attributes:
        place, velocity, goal: of robots, then people, `[n, 2]` in metres. here: who is on the floor, `[n]`.
        time: commands so far. touched, arrived: robots that did, by number.
        least: of every robot the least gap to another disc during the last command, metres.
    """

    def __init__(self, world: Crossings) -> None:
        self.world, self.agents = world, world.agents
        self.reset(Key.of(0))

    def reset(self, key: Key) -> None:
        world, rng = self.world, key.numpy()
        n = world.robots + world.people
        slot = 2 * np.pi / n
        angle = slot * (rng.permutation(n) + rng.uniform(-0.1, 0.1, n)) + rng.uniform(0, 2 * np.pi)
        aim = angle + np.pi + rng.uniform(-0.2, 0.2, n)
        self.place = world.circle * np.stack([np.cos(angle), np.sin(angle)], -1)
        self.goal = world.circle * np.stack([np.cos(aim), np.sin(aim)], -1)
        self.velocity = np.zeros((n, 2))
        people = slice(world.robots, None)
        self.velocity[people] = FORCE.pace * unit(self.goal - self.place)[people]
        self.here: NDArray[np.bool_] = np.ones(n, bool)
        self.time = 0
        self.touched: list[int] = []
        self.arrived: list[int] = []
        self.least = np.full(world.robots, np.inf)
        self._now = self.least
        self._margins = np.array([world.persona(number).margin for number in range(world.robots)])
        self._wrong = dict.fromkeys(self.agents, 0)

    # ------------------------------------------------------------ who acts, and what is seen

    @property
    def acting(self) -> tuple[str, ...]:
        if self.time >= self.world.length:
            return ()
        return tuple(agent for number, agent in enumerate(self.agents) if self.here[number])

    @property
    def truncated(self) -> bool:
        return self.time >= self.world.length and bool(self.here[: self.world.robots].any())

    @property
    def illegal(self) -> Mapping[str, int]:
        return self._wrong

    def observe(self, agent: str) -> Observation:
        number = self.agents.index(agent)
        far = float(np.linalg.norm(self.goal[number] - self.place[number]))
        told = [f"{agent}: {self.world.persona(number).text}. Goal {far:.1f} ahead."]
        text = "\n".join([*told, *(f"{line}." for line in self._others(number))])
        return Observation(text, COMMANDS if agent in self.acting else (), state=text)

    def _others(self, number: int) -> list[str]:
        """Those on the floor, the nearest first."""
        gaps = np.linalg.norm(self.place - self.place[number], axis=-1) - 2 * FORCE.radius
        gaps = np.where(self.here & (gaps < VIEW), gaps, np.inf)
        gaps[number] = np.inf
        told = []
        for other in np.argsort(gaps, kind="stable")[: self.world.sight].tolist():
            if np.isfinite(gaps[other]):
                where = SECTORS[self._sector(number, self.place[other] - self.place[number])]
                pace = float(np.linalg.norm(self.velocity[other]))
                way = f"going {SECTORS[self._sector(number, self.velocity[other])]}" if pace > 0.1 else "standing"
                told.append(f"{self.called(other)} {max(gaps[other], 0.0):.1f} {where}, {way}")
        return told

    def called(self, number: int) -> str:
        """The name of a disc."""
        return self.agents[number] if number < self.world.robots else f"person_{number - self.world.robots + 1}"

    def _sector(self, number: int, way: Floats) -> int:
        """Which eighth of the round a vector lies in, seen towards the goal of a robot."""
        ahead = unit(self.goal[number] - self.place[number])
        turn = np.arctan2(ahead[0] * way[1] - ahead[1] * way[0], float((ahead * way).sum()))
        return int(np.rint(turn / (np.pi / 4))) % 8

    def prospect(self, agent: str, move: str) -> str:
        """What who judges one robot's command is told: how much nearer it brings the goal, and others that go on."""
        number, velocity = self.agents.index(agent), self._commanded({agent: move})
        far = float(np.linalg.norm(self.goal[number] - self.place[number]))
        nearer = float(self.outlook(velocity).progress[number])
        told = [f"{agent}: {self.world.persona(number).text}. {move}.", f"Goal {far:.1f}, {nearer:.1f} nearer."]
        return "\n".join([*told, *self._nearing(velocity, (number,), self.world.sight)])

    def prospects(self, moves: Mapping[str, str]) -> str:
        """What who oversees all robots is told: their commands, and how much nearer these bring discs to each other."""
        told = [f"{agent}: {moves[agent]}." for agent in self.agents if agent in moves]
        seats = [self.agents.index(agent) for agent in moves]
        return "\n".join([*told, *self._nearing(self._commanded(moves), seats, 2 * self.world.sight)])

    def _nearing(self, velocity: Floats, robots: Sequence[int], most: int) -> list[str]:
        """The gaps between these robots and others, the least first, and how much nearer they come within `HORIZON`."""
        gaps, least = self._gaps(np.zeros_like(velocity), 0.0), self._gaps(velocity, HORIZON)
        pairs = {(min(a, b), max(a, b)) for a in robots for b in range(len(self.place)) if gaps[a, b] < VIEW}
        return [
            f"{self.called(a)} {self.called(b)} {max(gaps[a, b], 0.0):.1f}, {gaps[a, b] - least[a, b]:.1f} nearer."
            for a, b in sorted(pairs, key=lambda pair: (gaps[pair], pair))[:most]
        ]

    # ------------------------------------------------------------ what is done

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        for agent, move in moves.items():
            self._wrong[agent] += same_move(move, COMMANDS) is None
        self.velocity = self._commanded(moves)
        self.least = np.full(self.world.robots, np.inf)
        near = np.zeros(self.world.robots)
        earned = np.zeros(self.world.robots)
        steps = round(PERIOD / STEP)
        for _ in range(steps):
            earned += self._step()
            near += self._now < self._margins
        earned -= NEARNESS / self.world.length * near / steps
        self.time += 1
        return {agent: float(earned[self.agents.index(agent)]) for agent in moves}

    def command(self, number: int, move: str) -> Floats:
        """The velocity that a command gives a robot, `[2]`; 0 where it is none."""
        said = same_move(move, COMMANDS)
        if said is None or said == STOP:
            return np.zeros(2)
        heading, _, speed = said.partition(" ")
        ahead = unit(self.goal[number] - self.place[number])
        return self.world.persona(number).pace * SPEEDS[speed] * turned(ahead, HEADINGS[heading])

    def _commanded(self, moves: Mapping[str, str]) -> Floats:
        """The velocities of all discs when these robots are commanded so; the others' as they are."""
        velocity = self.velocity.copy()
        for agent, move in moves.items():
            number = self.agents.index(agent)
            velocity[number] = self.command(number, move)
        return velocity

    def clone(self) -> Self:
        return copy.deepcopy(self)

    def _step(self) -> Floats:
        """One step of the simulation; what each robot earned by it, `[robots]`."""
        robots = self.world.robots
        felt = self.here.copy()
        felt[:robots] &= self.world.yielding
        walked = FORCE.walked(self.place, self.velocity, self.goal, felt, STEP)
        self.velocity = np.concatenate([self.velocity[:robots] * self.here[:robots, None], walked[robots:]])
        self._now = self._gaps(self.velocity, STEP)[:robots].min(-1, initial=np.inf)
        self.least = np.minimum(self.least, self._now)
        # A way that ends at the goal is straight, so how near it comes is that of two points, one of which stands.
        ends = np.stack([self.place, self.goal], -2)
        ways = np.stack([self.velocity, np.zeros_like(self.velocity)], -2)
        reached = least_distances(ends, ways, STEP)[:, 0, 1] < ARRIVED
        self.place = self.place + STEP * self.velocity
        touched = self.here[:robots] & (self._now < 0)
        arrived = self.here[:robots] & reached[:robots] & ~touched
        self.touched += np.flatnonzero(touched).tolist()
        self.arrived += np.flatnonzero(arrived).tolist()
        self.here[:robots] &= ~(touched | arrived)
        self.goal[robots:] *= np.where(reached[robots:], -1.0, 1.0)[:, None]  # People walk back again.
        return arrived.astype(float) - touched

    def _gaps(self, velocity: Floats, seconds: float) -> Floats:
        """The least gap of every two discs on the floor that go straight, `[..., n, n]`; infinite for the others."""
        place = np.broadcast_to(self.place, velocity.shape)
        gaps = least_distances(place, velocity, seconds) - 2 * FORCE.radius
        found: Floats = np.where(self.here[:, None] & self.here[None], gaps, np.inf)
        return found

    def outlook(self, velocity: Floats) -> Outlook:
        """What comes of velocities `[..., n, 2]` that nobody changes."""
        robots = self.world.robots
        gaps = self._gaps(velocity, HORIZON)[..., :robots, :]
        ways = (self.goal - self.place)[:robots]
        after = np.linalg.norm(ways - PERIOD * velocity[..., :robots, :], axis=-1)
        return Outlook(gaps.min(-1), np.linalg.norm(ways, axis=-1) - after, gaps.argmin(-1))

    def alone(self, agent: str) -> Outlook:
        """That of a robot for each of `COMMANDS`, the others going on as they do: `[7]`."""
        number = self.agents.index(agent)
        velocity = np.repeat(self.velocity[None], len(COMMANDS), 0)
        velocity[:, number] = [self.command(number, move) for move in COMMANDS]
        found = self.outlook(velocity)
        return Outlook(found.gap[:, number], found.progress[:, number], found.nearest[:, number])

    def joint(self, moves: Mapping[str, str]) -> Outlook:
        """That of all robots when these are commanded so: `[robots]`."""
        return self.outlook(self._commanded(moves))


def sensible(course: Crossing, agent: str, refused: Sequence[str] = ()) -> str:
    """The command that brings a robot furthest of those that keep its margin, else the one that keeps furthest off.

    By the straight ways of the others; of what was `refused` none, as long as anything else is left.
    """
    margin = course.world.persona(course.agents.index(agent)).margin
    ahead = course.alone(agent)
    open_ = [place for place, move in enumerate(COMMANDS) if move not in refused] or range(len(COMMANDS))
    best = max(open_, key=lambda place: (min(ahead.gap[place], margin), ahead.progress[place]))
    return COMMANDS[best]
