"""A household in words: find a thing, wash, heat or cool it, put it where it belongs.

In the spirit of ALFWorld (Shridhar et al., arXiv 2010.03768), written anew and small. Lids are shut at first; one thing
is carried at a time; what lies in a place is seen only there, and only when it is open.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from hocket.agents.environments.protocol import Observation, same_move
from hocket.agents.environments.solitary import PLAYER, Solitary
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.types import Scenario
from hocket.zoo.household_house import CONDITIONS, SIZES, House, draw_house

Item = TypeVar("Item")

CARRIED = -1
"""Where a thing is that is carried."""


class Situation(NamedTuple):
    """All that can change in a house.

    Attributes:
        room: where the agent is. at: the place it stands at, None in the middle of the room. open: lids that are up.
        where: of each thing. made: what each thing was made last: clean, hot, cold or nothing. lit: lamps that are on.
    """

    room: int
    at: int | None
    open: frozenset[int]
    where: tuple[int, ...]
    made: tuple[str, ...]
    lit: frozenset[int]

    @property
    def key(self) -> str:
        """A short name, equal for equal situations."""
        parts = (self.room, self.at, sorted(self.open), self.where, self.made, sorted(self.lit))
        return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()

    @property
    def carried(self) -> int | None:
        """The thing that is carried."""
        return self.where.index(CARRIED) if CARRIED in self.where else None


def beginning(house: House) -> Situation:
    """In the middle of the first room, all lids shut and lamps off."""
    return Situation(house.entry, None, frozenset(), house.start, ("",) * len(house.things), frozenset())


def reached(house: House, state: Situation) -> bool:
    """Whether the errand is done."""
    goal = house.goal
    mine = [number for number, kind in enumerate(house.kinds) if kind == goal.kind]
    if goal.errand == "look":
        return state.carried in mine and state.at in state.lit
    there = [number for number in mine if state.where[number] == goal.place]
    if goal.errand == "two":
        return len(there) >= 2
    wanted = CONDITIONS.get(goal.errand)
    return any(wanted is None or state.made[number] == wanted for number in there)


# ---------------------------------------------------------------- moves


class Move(NamedTuple):
    """A legal move: its words, the report when it is made, and where it leads."""

    words: str
    report: str
    then: Situation


_POWERS = {"clean": "clean", "heat": "hot", "cool": "cold"}


def moves(house: House, state: Situation) -> Iterator[Move]:
    """Every legal move."""
    for number, place in enumerate(house.places):
        if place.room == state.room and number != state.at:
            yield Move(f"go to {place.name}", f"You go to the {place.name}.", state._replace(at=number))
    for number, name in enumerate(house.rooms):
        if number != state.room:
            yield Move(f"enter {name}", f"You enter the {name}.", state._replace(room=number, at=None))
    if state.at is not None:
        yield from _lids(house, state, state.at)
        yield from _hands(house, state, state.at)
        yield from _powers(house, state, state.at)


def accessible(house: House, state: Situation, place: int) -> bool:
    """Whether a place has no lid, or its lid is up."""
    return not house.places[place].lid or place in state.open


def _lids(house: House, state: Situation, at: int) -> Iterator[Move]:
    name = house.places[at].name
    if not accessible(house, state, at):
        yield Move(f"open {name}", f"You open the {name}.", state._replace(open=state.open | {at}))
    elif house.places[at].lid:
        yield Move(f"close {name}", f"You close the {name}.", state._replace(open=state.open - {at}))


def _hands(house: House, state: Situation, at: int) -> Iterator[Move]:
    if not accessible(house, state, at):
        return
    carried = state.carried
    if carried is not None:
        name = house.things[carried]
        yield Move(f"put {name}", f"You put the {name} there.", state._replace(where=_set(state.where, carried, at)))
        return
    for number, name in enumerate(house.things):
        if state.where[number] == at:
            yield Move(
                f"take {name}", f"You take the {name}.", state._replace(where=_set(state.where, number, CARRIED))
            )


def _powers(house: House, state: Situation, at: int) -> Iterator[Move]:
    power, carried = house.places[at].power, state.carried
    if power == "lamp" and at not in state.lit:
        yield Move("light lamp", "You light the lamp.", state._replace(lit=state.lit | {at}))
    if power in _POWERS and carried is not None:
        name, made = house.things[carried], _POWERS[power]
        yield Move(
            f"{power} {name}", f"The {name} is {made} now.", state._replace(made=_set(state.made, carried, made))
        )


def _set(row: tuple[Item, ...], place: int, value: Item) -> tuple[Item, ...]:
    return (*row[:place], value, *row[place + 1 :])


# ---------------------------------------------------------------- plans


def plan(house: House, now: Situation | None = None) -> tuple[str, ...]:
    """A shortest plan from a situation to the errand's end, for one who knows where everything is.

    Breadth-first over the moves that can matter: lids are never shut, only things of the errand's kind are taken, they
    are put down only where they belong, or at once when the hands must be free, and made what is wanted alone.

    Raises:
        ValueError: when there is no plan; houses that are drawn have one.
    """
    first = beginning(house) if now is None else now
    before: dict[Situation, tuple[Situation, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        situation = queue.popleft()
        if reached(house, situation):
            return _backwards(before, situation)
        for move in moves(house, situation):
            if move.then not in before and _matters(house, situation, move):
                before[move.then] = (situation, move.words)
                queue.append(move.then)
    raise ValueError(f"the errand cannot be done: {house.text}")


def _matters(house: House, state: Situation, move: Move) -> bool:
    verb = move.words.partition(" ")[0]
    goal, carried = house.goal, state.carried
    if verb == "take":
        changed = next(number for number, at in enumerate(move.then.where) if at == CARRIED)
        return house.kinds[changed] == goal.kind
    if verb == "put":
        assert carried is not None
        return state.at == goal.place or house.kinds[carried] != goal.kind
    if verb in _POWERS:
        return verb == goal.errand
    if verb == "light":
        return goal.errand == "look"
    return verb != "close"


def _backwards(before: dict[Situation, tuple[Situation, str] | None], last: Situation) -> tuple[str, ...]:
    words: list[str] = []
    link = before[last]
    while link is not None:
        words.append(link[1])
        link = before[link[0]]
    return tuple(reversed(words))


# ---------------------------------------------------------------- the environment


@dataclass(frozen=True)
class Households:
    """Households as a world.

    Attributes:
        size: rooms. steps: moves of an episode; None is 15 and 15 for every room, half as many where
            `brief`.
        dense: what each sub-goal earns when it is reached first: `found` (a right thing is taken) and `made` (it is
            clean, hot or cold as wanted). They are named parts of a turn's reward.
        recall: whether observations list what the agent has seen where; without it, it must remember.
        brief: observations of few words and moves of one, for small models. In `fork: clean 1, to 3. At 2: fork. New 1
            4.` a fork must be cleaned at place 1 and brought to 3; one stands at 2, where a fork lies, and has not
            looked into 1 and 4 yet. Only what the errand is about is shown. A number goes to a place, a room's name
            enters it; `take` takes what the errand is about and a thing's name that thing; `use` is for what a place
            can do when the errand does not ask for it. An illegal move goes without comment, and whole words such as
            `go to fridge` are understood too.

    Raises:
        ConfigurationError: for settings out of range.
    """

    size: int = 1
    steps: int | None = None
    dense: float = 0.0
    recall: bool = True
    brief: bool = False

    agents = (PLAYER,)

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise ConfigurationError(f"a household has 1 to {SIZES[-1]} rooms, not {self.size}")
        if self.steps is not None and self.steps < 1:
            raise ConfigurationError(f"a household has at least 1 step, not {self.steps}")

    @property
    def name(self) -> str:
        return f"household?size={self.size}"

    @property
    def limit(self) -> int:
        """Moves of an episode."""
        usual = 15 + 15 * self.size
        return (usual // 2 if self.brief else usual) if self.steps is None else self.steps

    def house(self, key: Key) -> House:
        """The house of a key."""
        return draw_house(self.size, key)

    def make(self, scenario: Scenario) -> Household:
        return Household(self, self.house(Key.of(int(scenario.metadata["house"]))))


class Household(Solitary):
    """One errand in one house: 1 when it is done.

    Attributes:
        house: the house and its errand. now: how things stand.
    """

    def __init__(self, world: Households, house: House) -> None:
        super().__init__(world.limit)
        self.world, self.house = world, house
        self._numbers = {place.name: number for number, place in enumerate(house.places, start=1)}
        self.now = beginning(house)
        self._known: frozenset[int] = frozenset()
        self._reached: frozenset[str] = frozenset()

    def _begin(self) -> None:
        self.now = beginning(self.house)
        self._known, self._reached = frozenset(), frozenset()

    @property
    def done(self) -> bool:
        return reached(self.house, self.now)

    def _moves(self) -> tuple[str, ...]:
        return tuple(map(self.worded, self.whole_moves()))

    def worded(self, move: str) -> str:
        """The words of a move of `moves` in this world."""
        if not self.world.brief:
            return move
        verb, _, name = move.removeprefix("go to ").partition(" ")
        if move.startswith("go to "):
            return str(self._numbers[verb])
        if verb == "take":
            return "take" if name == self._wanted() else name
        if verb in (*_POWERS, "light"):
            return verb if self._asked(verb) else "use"
        return name if verb == "enter" else verb

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        if not self.world.brief:
            return super().act(moves)
        move = same_move(moves.get(PLAYER, ""), self.whole_moves())
        return super().act(moves if move is None else {**moves, PLAYER: self.worded(move)})

    def whole_moves(self) -> tuple[str, ...]:
        """The legal moves in whole words."""
        return tuple(move.words for move in moves(self.house, self.now))

    def _wanted(self) -> str | None:
        """The first thing here that the errand is about."""
        present = [self.house.things[number] for number in self._mine() if self.now.where[number] == self.now.at]
        return present[0] if present else None

    def _asked(self, verb: str) -> bool:
        """Whether the errand wants what a power does, and the thing that is carried lacks it."""
        goal, carried = self.house.goal, self.now.carried
        if carried is None or self.house.kinds[carried] != goal.kind:
            return False
        return goal.errand == {"light": "look"}.get(verb, verb) and self.now.made[carried] != _POWERS.get(verb)

    def _make(self, move: str) -> float:
        made = next(candidate for candidate in moves(self.house, self.now) if self.worded(candidate.words) == move)
        self.now, self._happened = made.then, made.report
        at = self.now.at
        if at is not None and accessible(self.house, self.now, at):
            self._known |= {at}
        if self.world.dense:
            self._parts = dict.fromkeys(sorted(self._subgoals() - self._reached), self.world.dense)
            self._reached |= self._parts.keys()
        return float(self.done)

    def _subgoals(self) -> frozenset[str]:
        """The sub-goals that hold now."""
        goal, carried = self.house.goal, self.now.carried
        subgoals = set()
        if carried is not None and self.house.kinds[carried] == goal.kind:
            subgoals.add("found")
            if goal.errand in CONDITIONS and self.now.made[carried] == CONDITIONS[goal.errand]:
                subgoals.add("made")
        return frozenset(subgoals)

    @property
    def affordances(self) -> Mapping[str, tuple[str, ...]]:
        """Of every thing, place and room of the house the verbs that fit: what can be done with it at some time."""
        powers = {place.power for place in self.house.places}
        handled = ("take", "put", *(verb for verb in _POWERS if verb in powers))
        verbs = dict.fromkeys(self.house.things, handled)
        verbs |= {place.name: ("go to", *(("open", "close") if place.lid else ())) for place in self.house.places}
        verbs |= {"lamp": ("light",)} if "lamp" in powers else {}
        return verbs | (dict.fromkeys(self.house.rooms, ("enter",)) if len(self.house.rooms) > 1 else {})

    # ------------------------------------------------------------ in words

    def observe(self, agent: str) -> Observation:
        if not self.world.brief:
            return super().observe(agent)
        return Observation(self._shown(), self._moves() if agent in self.acting else (), self.now.key)

    def _shown(self) -> str:
        """What there is to be seen of what the errand is about, in few words."""
        goal, carried = self.house.goal, self.now.carried
        lines = [f"{goal.kind}: {self._errand()}", self._standing()]
        if carried is not None:
            lines.append(f"Hold {self._described(carried) if carried in self._mine() else 'other'}")
        if self.world.recall:
            lines += [f"{name} {_listed(places)}" for name, places in self._noted().items() if places]
        return ". ".join(lines) + "."

    def _mine(self) -> list[int]:
        """The things that the errand is about."""
        return [number for number, kind in enumerate(self.house.kinds) if kind == self.house.goal.kind]

    def _standing(self) -> str:
        at = self.now.at
        if at is None:
            return f"In {self.house.rooms[self.now.room]}"
        if not accessible(self.house, self.now, at):
            return f"At {at + 1}: shut"
        present = [self._described(number) for number in self._mine() if self.now.where[number] == at]
        return f"At {at + 1}: {', '.join(present) or 'none'}"

    def _noted(self) -> Mapping[str, list[int]]:
        """Places of this room that were not looked into, and others where things of the errand were seen."""
        at, known = self.now.at, self._known
        room = [number for number, place in enumerate(self.house.places) if place.room == self.now.room]
        mine = {self.now.where[number] for number in self._mine()}
        return {
            "New": [number for number in room if number not in known and number != at],
            "Seen": sorted((mine & known) - {at, self.house.goal.place}),
        }

    def _errand(self) -> str:
        """The errand in few words, its places by number."""
        goal = self.house.goal
        power = "lamp" if goal.errand == "look" else goal.errand
        places = [number for number, place in enumerate(self.house.places) if place.power == power]
        steps = [f"{goal.errand} {self._at(places)}"] if places else ["two"] if goal.errand == "two" else []
        return ", ".join(steps + ([] if goal.place is None else [f"to {self._at([goal.place])}"]))

    def _at(self, places: Sequence[int]) -> str:
        return "here" if self.now.at in places else _listed(places, " or ")

    def _seen(self) -> Observation:
        news = f"{self._here()} {self._holding()}"
        lines = [f"Task: {self.house.task}.", news]
        recalled = self._recalled()
        if self.world.recall and recalled:
            lines.append(f"Seen: {recalled}.")
        return Observation(" ".join(lines), state=self.now.key, news=news)

    def _here(self) -> str:
        room, at = self.house.rooms[self.now.room], self.now.at
        if at is None:
            return f"You are in the {room}."
        name = self.house.places[at].name
        if not accessible(self.house, self.now, at):
            return f"You are in the {room} at the {name}, which is shut."
        return f"You are in the {room} at the {name}. In it: {self._held(at)}."

    def _holding(self) -> str:
        carried = self.now.carried
        return "You carry nothing." if carried is None else f"You carry: {self._described(carried)}."

    def _held(self, place: int) -> str:
        held = [self._described(number) for number, at in enumerate(self.now.where) if at == place]
        return ", ".join(held) or "nothing"

    def _described(self, thing: int) -> str:
        made = self.now.made[thing]
        return f"{made} {self.house.things[thing]}" if made else self.house.things[thing]

    def _recalled(self) -> str:
        """What was seen elsewhere. Nobody else moves things, so it is still there."""
        elsewhere = sorted(self._known - ({self.now.at} if self.now.at is not None else set()))
        return "; ".join(f"{self.house.places[place].name}: {self._held(place)}" for place in elsewhere)


def _listed(places: Sequence[int], apart: str = " ") -> str:
    """Places by number, from 1."""
    return apart.join(str(number + 1) for number in places)
