"""Households: rooms, places that hold things, things, and what is to be done with them; drawn from a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hocket.core.keys import Key

Errand = Literal["put", "clean", "heat", "cool", "look", "two"]
ERRANDS: tuple[Errand, ...] = ("put", "clean", "heat", "cool", "look", "two")
CONDITIONS: Mapping[Errand, str] = {"clean": "clean", "heat": "hot", "cool": "cold"}
"""What a thing must be, by errand."""

Power = Literal["", "clean", "heat", "cool", "lamp"]


@dataclass(frozen=True)
class Receptacle:
    """Something that holds things.

    Attributes:
        name: of one word, unique in the house. room: where it stands, a number. lid: whether it can be shut.
        power: what can be done there.
    """

    name: str
    room: int
    lid: bool = False
    power: Power = ""


@dataclass(frozen=True)
class HouseGoal:
    """What is to be done: an errand with a thing of a kind, and the place where it must end up (none to look at it)."""

    errand: Errand
    kind: str
    place: int | None = None

    def text(self, places: Sequence[Receptacle]) -> str:
        """In words."""
        if self.place is None:
            return f"look at the {self.kind} under a lamp"
        into, how = places[self.place].name, CONDITIONS.get(self.errand)
        if self.errand == "two":
            return f"put two {self.kind}s in the {into}"
        return f"put the {self.kind} in the {into}" if how is None else f"put the {how} {self.kind} in the {into}"


@dataclass(frozen=True)
class House:
    """A house and an errand.

    Attributes:
        rooms: names. places: by number. things: names, unique; kinds: the kind of each. start: where each thing lies.
        entry: the room where it begins. goal: the errand.
    """

    rooms: tuple[str, ...]
    places: tuple[Receptacle, ...]
    things: tuple[str, ...]
    kinds: tuple[str, ...]
    start: tuple[int, ...]
    entry: int
    goal: HouseGoal

    @property
    def task(self) -> str:
        """The errand in words."""
        return self.goal.text(self.places)

    @property
    def text(self) -> str:
        """The whole house in words: equal for equal houses."""
        lines = [self.task, f"start in {self.rooms[self.entry]}"]
        for number, place in enumerate(self.places):
            held = [name for name, at in zip(self.things, self.start, strict=True) if at == number]
            lines.append(f"{self.rooms[place.room]} {place.name}: {', '.join(held) or 'nothing'}")
        return "; ".join(lines)


_KITCHEN = (
    Receptacle("fridge", 0, lid=True, power="cool"),
    Receptacle("oven", 0, lid=True, power="heat"),
    Receptacle("sink", 0, power="clean"),
    Receptacle("table", 0),
    Receptacle("cupboard", 0, lid=True),
    Receptacle("drawer", 0, lid=True),
)
_BEDROOM = (
    Receptacle("nightstand", 0, power="lamp"),
    Receptacle("bed", 0),
    Receptacle("dresser", 0, lid=True),
    Receptacle("chest", 0, lid=True),
    Receptacle("armchair", 0),
)
_STUDY = (
    Receptacle("desk", 0, power="lamp"),
    Receptacle("shelf", 0),
    Receptacle("safe", 0, lid=True),
    Receptacle("sofa", 0),
    Receptacle("cabinet", 0, lid=True),
)
_BATHROOM = (
    Receptacle("basin", 0, power="clean"),
    Receptacle("bathtub", 0),
    Receptacle("rack", 0),
    Receptacle("hamper", 0, lid=True),
)
ROOMS: Mapping[str, tuple[Receptacle, ...]] = {
    "kitchen": _KITCHEN,
    "bedroom": _BEDROOM,
    "study": _STUDY,
    "bathroom": _BATHROOM,
}
SIZES = (1, 2, 3)
"""Rooms of a house."""
_PLACES = 4
"""Places of a room."""

WASHABLE = ("mug", "plate", "fork", "knife", "bowl")
FOOD = ("egg", "apple", "potato", "bread")
OTHERS = ("book", "pen", "key", "phone", "watch", "vase")
SUITED: Mapping[Errand, tuple[str, ...]] = {
    "put": (*WASHABLE, *FOOD, *OTHERS),
    "clean": WASHABLE,
    "heat": FOOD,
    "cool": FOOD,
    "look": OTHERS,
    "two": (*WASHABLE, *FOOD, *OTHERS),
}
"""Kinds of things by errand."""


def draw_house(size: int, key: Key) -> House:
    """A house of `size` rooms. The errand can be done in it, and is not done yet."""
    rng = key.derive("house").numpy()
    names = tuple(list(ROOMS)[place] for place in sorted(rng.permutation(len(ROOMS))[:size].tolist()))
    places = tuple(place for room, name in enumerate(names) for place in _furnished(name, room, rng))
    errands = [errand for errand in ERRANDS if _possible(errand, places)]
    errand = errands[int(rng.integers(len(errands)))]
    kind = _pick(SUITED[errand], rng)
    goal = HouseGoal(errand, kind, None if errand == "look" else int(rng.integers(len(places))))
    kinds = _kinds(errand, kind, 2 + 2 * size, rng)
    start = tuple(_spot(goal, thing, len(places), rng) for thing in kinds)
    entry = int(rng.integers(len(names)))
    return House(names, places, _numbered(kinds), kinds, start, entry, goal)


def _furnished(name: str, room: int, rng: np.random.Generator) -> list[Receptacle]:
    """The places of a room: those that can do something, and others up to four."""
    known = ROOMS[name]
    needed = [place for place in known if place.power]
    others = [place for place in known if not place.power]
    chosen = rng.permutation(len(others))[: max(1, _PLACES - len(needed))].tolist()
    names = {place.name for place in needed} | {others[number].name for number in chosen}
    return [Receptacle(place.name, room, place.lid, place.power) for place in known if place.name in names]


def _possible(errand: Errand, places: Sequence[Receptacle]) -> bool:
    powers = {place.power for place in places}
    needs: Power = "lamp" if errand == "look" else errand if errand in ("clean", "heat", "cool") else ""
    return not needs or needs in powers


def _kinds(errand: Errand, kind: str, count: int, rng: np.random.Generator) -> tuple[str, ...]:
    """The kinds of all things: those the errand needs, and others that differ from them."""
    wanted = [kind] * (2 if errand == "two" else 1)
    others = [other for other in (*WASHABLE, *FOOD, *OTHERS) if other != kind]
    drawn = rng.permutation(len(others))[: count - len(wanted)].tolist()
    kinds = [*wanted, *(others[number] for number in drawn)]
    return tuple(kinds[place] for place in rng.permutation(len(kinds)).tolist())


def _numbered(kinds: Sequence[str]) -> tuple[str, ...]:
    """Names: the kind, with a number where there are several."""
    return tuple(
        kind if kinds.count(kind) == 1 else f"{kind} {kinds[: place + 1].count(kind)}"
        for place, kind in enumerate(kinds)
    )


def _spot(goal: HouseGoal, kind: str, places: int, rng: np.random.Generator) -> int:
    """Where a thing lies; never where the errand wants it."""
    while True:
        place = int(rng.integers(places))
        if kind != goal.kind or place != goal.place:
            return place


def _pick(words: Sequence[str], rng: np.random.Generator) -> str:
    return words[int(rng.integers(len(words)))]
