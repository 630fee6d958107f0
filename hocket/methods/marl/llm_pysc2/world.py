"""A skirmish led by commanders who write orders in text, in the manner of LLM-PySC2 (arXiv:2411.05348).

The game is `hocket.zoo.joint.skirmish`; StarCraft itself is a program that no package has. What a
commander sees and says is `hocket.methods.marl.llm_pysc2.orders`, which another game can stand behind just as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.protocol import Environment, Observation
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.marl.llm_pysc2.orders import FORMS, Order, Picture, Spoken, Unit, read, refusal
from hocket.types import Scenario
from hocket.zoo.joint.skirmish import ATTACK, MOVES, Battlefield, Bools, Skirmish

FOES = 0x10
"""Tags of foes begin above it, those of soldiers at 1."""

IDLE = Order("Stop")


@dataclass(frozen=True)
class Commands:
    """Skirmishes whose soldiers are led in groups, each by a commander who writes orders.

    All commanders with a soldier left are asked at the same time; then the game goes on for `pace` steps, or until it
    is over. A soldier keeps its order until it has another: `Attack_Unit` goes after a foe until that has fallen or is
    known no more, `Move_Screen` goes to a cell and hits nobody, `Attack_Screen` goes there and hits who is in reach on
    the way, `Hold_Position` hits who is in reach and never leaves, and `Stop` goes for the nearest foe that the soldier
    itself sees; all begin with it, and what is done returns to it. `No_Operation` changes nothing. Of those in reach
    the nearest is hit, of equals the first.

    What is refused is done by nobody, counted, and told with the reason; a reply without any order counts as one.
    Messages and what is said on channels are heard with the next question by whom they are for.

    Attributes:
        ground: where it is fought. groups: commanders, who share the soldiers evenly. pace: steps between orders.
        knowledge: whether commanders are told what units can do and how orders are written. talking: whether messages
            arrive.
    """

    ground: Skirmish
    groups: int = 1
    pace: int = 2
    knowledge: bool = False
    talking: bool = True

    cooperative = True

    def __post_init__(self) -> None:
        if not 1 <= self.groups <= self.ground.count:
            raise ConfigurationError(
                f"task {self.name}: groups = {self.groups}; from 1 to {self.ground.count}, one soldier each at least"
            )
        if self.pace < 1:
            raise ConfigurationError(f"task {self.name}: pace = {self.pace}; the game goes on for at least 1 step")
        if self.ground.count >= FOES:
            raise ConfigurationError(f"task {self.name}: {self.ground.count} soldiers; at most {FOES - 1}")

    @property
    def name(self) -> str:
        return f"command:{self.ground.count}v{self.ground.foes}"

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(f"commander_{number}" for number in range(1, self.groups + 1))

    @property
    def limit(self) -> int:
        """Moves of an episode at most."""
        return -(-self.ground.length // self.pace) * self.groups

    def group(self, agent: str) -> tuple[int, ...]:
        """The soldiers of a commander, by number."""
        parts = np.array_split(np.arange(self.ground.count), self.groups)
        return tuple(parts[self.agents.index(agent)].tolist())

    @property
    def known(self) -> tuple[str, ...]:
        """What is known of the kinds of units, and the orders."""
        told = f"hits a unit within {self.ground.reach} cells for 1 a step, or goes 1 cell"
        return (
            f"Soldier: {told}; sees {self.ground.sight} cells",
            f"Foe: {told}; sees all, hits the nearest in reach, else comes nearer",
            f"Orders, where screen is [row, column] and tag 0x1: {FORMS}",
        )

    def make(self, scenario: Scenario) -> Command:
        return Command(self)


@dataclass
class _Desk:
    """What a commander has: lines for its next question, channels that it hears, how many orders were refused."""

    heard: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    channels: set[str] = field(default_factory=set)
    wrong: int = 0


class Command(Environment):
    """One skirmish. `course` is it, one copy wide; `orders` what each soldier does."""

    def __init__(self, world: Commands) -> None:
        self.world, self.agents = world, world.agents
        self.course: Battlefield = world.ground.open(1)
        self.reset(Key.of(0))

    def reset(self, key: Key) -> None:
        self.course.reset([0], [key.word & 0x7FFFFFFF])
        self.orders = [IDLE] * self.world.ground.count
        self.desks = {agent: _Desk() for agent in self.agents}
        self.steps, self._over, self._late = 0, False, False

    # ------------------------------------------------------------ who acts, and what is seen

    @property
    def acting(self) -> tuple[str, ...]:
        if self._over or self._late:
            return ()
        up = self.course.standing[0]
        return tuple(agent for agent in self.agents if up[list(self.world.group(agent))].any())

    @property
    def truncated(self) -> bool:
        return self._late

    @property
    def illegal(self) -> Mapping[str, int]:
        return {agent: desk.wrong for agent, desk in self.desks.items()}

    @property
    def won(self) -> bool:
        """Whether the last foe has fallen before the last soldier."""
        return bool(self.course.won()[0])

    def picture(self, agent: str) -> Picture:
        """What a commander is shown: all that any of its soldiers sees or was told of."""
        course, ground, own = self.course, self.world.ground, list(self.world.group(agent))
        known: Bools = np.asarray(course.knows()[0, own].any(0))
        sees: Bools = np.asarray(course.sees()[0, own].any(0))
        up, far = course.standing[0], course.away()[0]
        near = [number for number in own if up[number]]

        def unit(number: int) -> Unit:
            friend = number < ground.count
            return Unit(
                tag=number + 1 if friend else number - ground.count + FOES + 1,
                kind="Soldier" if friend else "Foe",
                place=(int(course.place[0, number, 0]), int(course.place[0, number, 1])),
                health=int(course.health[0, number]),
                whole=ground.health if friend else ground.strength,
                order=self.orders[number].text if number in own else "",
                distance=None if number in own else int(far[near, number].min()),
                told=not sees[number],
            )

        units = [unit(number) for number in np.flatnonzero(known & up).tolist()]
        desk, mine = self.desks[agent], {number + 1 for number in own}
        return Picture(
            time=self.steps,
            size=(ground.size, ground.size),
            own=tuple(one for one in units if one.tag in mine),
            allies=tuple(one for one in units if one.tag < FOES and one.tag not in mine),
            enemies=tuple(one for one in units if one.tag > FOES),
            knowledge=self.world.known if self.world.knowledge else (),
            heard=tuple(desk.heard),
            refused=tuple(desk.refused),
            commanders=tuple(other for other in self.agents if other != agent),
        )

    def observe(self, agent: str) -> Observation:
        text = self.picture(agent).text
        return Observation(text, state=text)

    # ------------------------------------------------------------ what is done

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        pictures = {agent: self.picture(agent) for agent in moves}
        spoken = {agent: read(move) for agent, move in moves.items()}
        for agent in self.agents:
            self.desks[agent].heard, self.desks[agent].refused = [], []
        for agent, said in spoken.items():
            self._command(agent, said, pictures[agent])
            self.desks[agent].channels |= set(said.channels)
        for agent, said in spoken.items():
            self._deliver(agent, said)
        paid = 0.0
        for _ in range(self.world.pace):
            if not self.acting:
                break
            paid += self._step()
        return dict.fromkeys(self.agents, paid)

    def _command(self, agent: str, said: Spoken, picture: Picture) -> None:
        """Hands out what can be done, and notes what cannot."""
        desk, group = self.desks[agent], self.world.group(agent)
        desk.refused += [f"{text}: no such arguments" for text in said.unread]
        for order in said.orders:
            why = refusal(order, picture)
            if why is not None:
                desk.refused.append(f"{order.text}: {why}")
            elif order.name != "No_Operation":
                for number in group if order.unit is None else (order.unit - 1,):
                    self.orders[number] = order.plain
        if not said.orders and not said.unread:
            desk.refused.append("there was no order")
        desk.wrong += len(desk.refused)

    def _deliver(self, sender: str, said: Spoken) -> None:
        """Brings messages to whom they are for: one commander, or all others who hear a channel."""
        for to, text in said.messages if self.world.talking else ():
            for agent in self.agents:
                if agent == to:
                    self.desks[agent].heard.append(f"From {sender}: {text}")
                elif agent != sender and to not in self.agents and to in self.desks[agent].channels:
                    self.desks[agent].heard.append(f"From {to}, {sender}: {text}")

    def _step(self) -> float:
        """One step of the game by the orders as they stand; what it paid."""
        course, n = self.course, self.world.ground.count
        reach, known, sees = course.in_reach()[0], course.knows()[0], course.sees()[0]
        legal = course.allowed()
        seats = [np.zeros(1, int) for _ in range(n)]
        for number in np.flatnonzero(course.standing[0, :n]).tolist():
            self._settle(number, known[number])
            action = self._action(number, reach[number, n:], sees[number, n:])
            seats[number][0] = action if legal[number][0, action] else 0
        moved = course.step(seats, np.ones(1, bool))
        self._over, self._late = bool(moved.terminated[0, 0]), bool(moved.truncated[0, 0])
        self.steps += 1
        return float(moved.rewards[0, 0])

    def _settle(self, number: int, known: Bools) -> None:
        """A soldier whose order is done is idle."""
        order = self.orders[number]
        if order.name == "Attack_Unit":
            foe = self._foe(order)
            done = not (known[foe] and self.course.standing[0, foe])
        else:
            done = bool(order.arguments) and order.arguments[0] == tuple(self.course.place[0, number].tolist())
        if done:
            self.orders[number] = IDLE

    def _action(self, number: int, reach: Bools, sees: Bools) -> int:
        """What a soldier does in this step, as the skirmish numbers it."""
        order, n = self.orders[number], self.world.ground.count
        far = np.where(self.course.standing[0, n:], self.course.away()[0, number, n:], 2 * self.world.ground.size)
        if order.name == "Attack_Unit":
            foe = self._foe(order)
            return ATTACK + foe - n if reach[foe - n] else self._towards(number, self.course.place[0, foe])
        if order.name != "Move_Screen" and reach.any():
            return ATTACK + int(np.where(reach, far, far.max() + 1).argmin())
        if order.name in ("Move_Screen", "Attack_Screen"):
            return self._towards(number, np.array(order.arguments[0]))
        if order.name == "Stop" and sees.any():
            return self._towards(number, self.course.place[0, n + int(np.where(sees, far, far.max() + 1).argmin())])
        return 0

    def _foe(self, order: Order) -> int:
        """The number of the foe that an order names."""
        tag = order.arguments[0]
        assert isinstance(tag, int)
        return tag - FOES - 1 + self.world.ground.count

    def _towards(self, number: int, goal: NDArray[np.int64]) -> int:
        """A step along the longer way, of equals along the row; along the other where somebody stands there."""
        course = self.course
        gap = goal - course.place[0, number]
        down = np.sign(gap) * (1, 0)
        right = np.sign(gap) * (0, 1)
        for way in (down, right) if abs(gap[0]) > abs(gap[1]) else (right, down):
            cell = course.place[0, number] + way
            held = (course.place[0] == cell).all(-1) & course.standing[0]
            if way.any() and not held.any():
                return int((way == MOVES).all(-1).argmax())
        return 0
