"""Fetch and carry: agents bring things home through a grid of rooms.

Everybody sees where all are and what they carry; what lies in a room sees only who is there, and the others know it
from messages. Where things are is partly unknown at first, so rooms are searched; on the way one may be moved, which
is noticed where it is missed. One step of all agents is one step of the clock, and what is brought early pays more.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from hocket.agents.environments.protocol import Environment, Observation
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.types import Scenario

AGENTS = ("alice", "bob", "carol", "dave")
THINGS = ("hat", "key", "cup", "map", "pen", "toy", "axe", "fan", "jug", "rug")
HOME = 1
"""The room in the corner, where agents begin and things are brought."""

RULES = "Moves: go ROOM, take THING, drop, wait."


@dataclass(frozen=True)
class Carries:
    """Fetch and carry as a world.

    Attributes:
        size: rooms in a row and rows of rooms, which are numbered row by row from 1, home.
        things: to be brought home, in different rooms at first. known: of so many it is known where they are.
        team: agents. surprise: the step after which a thing that lies somewhere is moved; 0 for never.
        length: steps of an episode; 0 for 10 a row. radio: whether what one agent sees is known to all at once.

    Raises:
        ConfigurationError: for settings out of range.
    """

    size: int = 3
    things: int = 4
    known: int = 2
    team: int = 2
    surprise: int = 0
    length: int = 0
    radio: bool = False

    cooperative = True

    def __post_init__(self) -> None:
        most = min(len(THINGS), self.size**2 - 1)
        if not 2 <= self.size <= 6 or not 1 <= self.things <= most or not 0 <= self.known <= self.things:
            raise ConfigurationError(
                f"task {self.name}: 2 to 6 rows, 1 to {max(most, 1)} things and none to all of them known, not "
                f"{self.size}, {self.things} and {self.known}"
            )
        if not 1 <= self.team <= len(AGENTS) or self.surprise < 0 or self.length < 0:
            raise ConfigurationError(
                f"task {self.name}: team is 1 to {len(AGENTS)}, surprise and length are at least 0, not {self.team}, "
                f"{self.surprise} and {self.length}"
            )

    @property
    def name(self) -> str:
        return f"carry?size={self.size}&things={self.things}"

    @property
    def agents(self) -> tuple[str, ...]:
        return AGENTS[: self.team]

    @property
    def steps(self) -> int:
        """Steps of an episode."""
        return self.length or 10 * self.size

    @property
    def limit(self) -> int:
        """Moves of an episode, those of all agents together."""
        return self.steps * self.team

    def make(self, scenario: Scenario) -> Carry:
        return Carry(self)

    def apart(self, first: int, second: int) -> int:
        """Steps from room to room."""
        (up, left), (down, right) = (divmod(room - 1, self.size) for room in (first, second))
        return abs(up - down) + abs(left - right)

    def towards(self, place: int, goal: int) -> int:
        """The next room on the way, along the longer side first; of equals along the row."""
        (up, left), (down, right) = (divmod(room - 1, self.size) for room in (place, goal))
        if abs(down - up) > abs(right - left):
            return place + (self.size if down > up else -self.size)
        return place if place == goal else place + (1 if right > left else -1)


class Carry(Environment):
    """One episode. A thing brought at step t of T pays every agent `(1 - t / 2T) / things`.

    Attributes:
        places: the room of each agent. holds: the thing that each carries. lies: where things were left.
        thought: of each agent where it thinks that a thing is, None for anywhere, and since when. looked: when each
            agent knows that a room was last looked into. lost: when it learnt last that a thing is gone: what was
            looked into before may hold it. brought: things at home, in order. time: steps so far.
        progress: what came of the last step, as (agent, sentence): a thing found or brought, one that is gone, a room
            searched in vain.
    """

    def __init__(self, world: Carries) -> None:
        self.world, self.agents = world, world.agents
        self.reset(Key.of(0))

    def reset(self, key: Key) -> None:
        world, rng = self.world, key.derive("carry").numpy()
        names = [THINGS[place] for place in rng.permutation(len(THINGS))[: world.things].tolist()]
        rooms = (2 + rng.permutation(world.size**2 - 1)[: world.things]).tolist()
        self.lies: dict[str, int] = dict(zip(names, rooms, strict=True))
        thought = {
            name: (0, room if number < world.known else None) for number, (name, room) in enumerate(self.lies.items())
        }
        self.thought: dict[str, dict[str, tuple[int, int | None]]] = {agent: dict(thought) for agent in self.agents}
        self.looked = {agent: dict.fromkeys(rooms[: world.known], 0) for agent in self.agents}
        self.lost = dict.fromkeys(self.agents, 0)
        self.places = dict.fromkeys(self.agents, HOME)
        self.holds: dict[str, str | None] = dict.fromkeys(self.agents)
        self.brought: tuple[str, ...] = ()
        self.time = 0
        self.progress: tuple[tuple[str, str], ...] = ()
        self._wrong = dict.fromkeys(self.agents, 0)
        self._key = key

    # ------------------------------------------------------------ who acts, and what it observes

    @property
    def acting(self) -> tuple[str, ...]:
        return () if self.done or self.time >= self.world.steps else self.agents

    @property
    def done(self) -> bool:
        """Whether everything is home."""
        return len(self.brought) == self.world.things

    @property
    def truncated(self) -> bool:
        return not self.done and self.time >= self.world.steps

    @property
    def illegal(self) -> Mapping[str, int]:
        return dict(self._wrong)

    def subtasks(self, agent: str) -> dict[str, str]:
        """What is to be done, as far as this agent knows and can do it, by name, and how it stands for it."""
        subtasks, place = {}, self.places[agent]
        for name, thing, room in self._known(agent):
            holder = self._holder(thing)
            if holder == agent:
                subtasks[name] = "in hand, at home" if place == HOME else "in hand"
            elif holder is None:
                subtasks[name] = "here" if place == room else f"in {room}"
        return {**subtasks, **dict.fromkeys(self._searches(agent), "")}

    def _known(self, agent: str) -> list[tuple[str, str, int | None]]:
        """Things that are not home and of which it knows where they are, or who has them: subtask, thing and room."""
        things = ((thing, room) for thing, (_, room) in self.thought[agent].items() if thing not in self.brought)
        return [(f"fetch {thing}", thing, room) for thing, room in things if room or self._holder(thing)]

    def _searches(self, agent: str) -> list[str]:
        return [f"search {room}" for room in self.unseen(agent) if self.missing(agent)]

    def missing(self, agent: str) -> tuple[str, ...]:
        """Things of which it does not know where they are."""
        unknown = (thing for thing, (_, room) in self.thought[agent].items() if room is None)
        return tuple(thing for thing in unknown if thing not in self.brought and self._holder(thing) is None)

    def unseen(self, agent: str) -> tuple[int, ...]:
        """Rooms that may hold what it misses."""
        looked, lost = self.looked[agent], self.lost[agent]
        return tuple(room for room in range(2, self.world.size**2 + 1) if looked.get(room, -1) < lost)

    def situation(self, agent: str) -> str:
        """What an agent knows."""
        stand = " ".join(f"{self._stands(member)}." for member in self.agents)
        todo = []
        for name, thing, room in self._known(agent):
            holder = self._holder(thing)
            todo.append(f"{name} (with {holder})" if holder else f"{name} (in {room})")
        ahead, missing = ", ".join([*todo, *self._searches(agent)]), self.missing(agent)
        lines = [f"Bring all to room {HOME}. Rooms {HOME} to {self.world.size**2}, {self.world.size} a row."]
        lines += [stand, f"To do: {ahead or 'nothing'}."]
        return "\n".join(lines + ([f"Not found: {', '.join(missing)}."] if missing else []))

    def observe(self, agent: str) -> Observation:
        lying = ", ".join(self._lying(self.places[agent])) or "nothing"
        text = f"{self.situation(agent)}\n{RULES}\nYou: {self._stands(agent)}. Here: {lying}."
        return Observation(text, state=text)

    def _stands(self, agent: str) -> str:
        return f"{agent} in {self.places[agent]} with {self.holds[agent] or 'nothing'}"

    def share(self) -> None:
        """All tell all what they know."""
        latest = {
            thing: max((self.thought[agent][thing] for agent in self.agents), key=lambda known: known[0])
            for thing in self.lies
        }
        looked: dict[int, int] = {}
        for mine in self.looked.values():
            looked |= {room: max(time, looked.get(room, 0)) for room, time in mine.items()}
        for agent in self.agents:
            self.thought[agent], self.looked[agent] = dict(latest), dict(looked)
        self.lost = dict.fromkeys(self.agents, max(self.lost.values()))

    def _holder(self, thing: str) -> str | None:
        return next((agent for agent, held in self.holds.items() if held == thing), None)

    def _lying(self, room: int) -> list[str]:
        taken = {*self.brought, *self.holds.values()}
        return [thing for thing, there in self.lies.items() if there == room and thing not in taken]

    # ------------------------------------------------------------ what is done

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        self.time += 1
        news: list[tuple[str, str]] = []
        for agent in self.agents:
            done = self._move(agent, moves[agent])
            self._wrong[agent] += done is None
            news += [(agent, done)] if done else []
        paid = len(news) * (1 - self.time / (2 * self.world.steps)) / self.world.things
        for agent in self.agents:
            news += [(agent, sentence) for sentence in self._look(agent)]
        if self.world.radio:
            self.share()
        if self.time == self.world.surprise:
            self._mislay()
        self.progress = tuple(news)
        return dict.fromkeys(self.agents, paid)

    def _move(self, agent: str, move: str) -> str | None:
        """Makes a move; what was brought home by it in a sentence, else empty, None where it is no legal one."""
        place, held = self.places[agent], self.holds[agent]
        verb, _, what = " ".join(move.casefold().split()).removesuffix(".").partition(" ")
        room = int(what) if re.fullmatch(r"[1-9]\d?", what) else 0
        if verb == "go" and 1 <= room <= self.world.size**2 and room != place:
            self.places[agent] = self.world.towards(place, room)
        elif verb == "take" and held is None and what in self._lying(place):
            self.holds[agent] = what
        elif verb == "drop" and not what and held is not None and place == HOME:
            self.holds[agent], self.brought = None, (*self.brought, held)
            return f"{agent} brought {held}."
        elif (verb, what) != ("wait", ""):
            return None
        return ""

    def _look(self, agent: str) -> list[str]:
        """What an agent sees where it is that it did not know."""
        room, thought = self.places[agent], self.thought[agent]
        lying = self._lying(room)
        away = {*lying, *self.brought, *self.holds.values()}
        sighted = [thing for thing in lying if thought[thing][1] != room]
        gone = [thing for thing, (_, there) in thought.items() if there == room and thing not in away]
        vain = bool(self.missing(agent)) and room in self.unseen(agent) and not sighted
        thought |= dict.fromkeys(sighted, (self.time, room)) | dict.fromkeys(gone, (self.time, None))
        self.looked[agent][room] = self.time
        if gone:
            self.lost[agent] = self.time
        news = [f"{thing} is in {room}." for thing in sighted] + [f"{thing} is gone from {room}." for thing in gone]
        return [*news, f"{room} is empty."] if vain else news

    def _mislay(self) -> None:
        """Moves one of the things that lie where nobody is to another room where nobody is."""
        draw, crowd = self._key.derive("surprise").numpy(), {HOME, *self.places.values()}
        taken = {*self.brought, *self.holds.values()}
        left = [thing for thing, room in self.lies.items() if thing not in taken and room not in crowd]
        if left:
            thing = left[int(draw.integers(len(left)))]
            free = [room for room in range(2, self.world.size**2 + 1) if room not in crowd | {self.lies[thing]}]
            self.lies[thing] = free[int(draw.integers(len(free)))] if free else self.lies[thing]

    def clone(self) -> Self:
        return copy.deepcopy(self)
