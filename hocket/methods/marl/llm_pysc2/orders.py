"""Orders of commanders in text: what a commander is shown, how an order is written and read, and why one is refused.

The form is LLM-PySC2's (Li et al., arXiv:2411.05348): `<Name(arguments)>`, where a unit is its tag, a hexadecimal
number, and a place is `[row, column]`; `<MessageTo(NAME, '''text''')>` speaks to one commander or on a channel, and
`<ListenTo(CHANNEL)>` hears it from then on. Nothing here knows a game: a world says what there is to see (`Picture`)
and carries orders out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

Place = tuple[int, int]
Argument = int | Place

TAG, SCREEN = "tag", "screen"

ORDERS: Mapping[str, tuple[str, ...]] = {
    "No_Operation": (),
    "Stop": (),
    "Hold_Position": (),
    "Move_Screen": (SCREEN,),
    "Attack_Screen": (SCREEN,),
    "Attack_Unit": (TAG,),
    "Select_Unit_Hold_Position": (TAG,),
    "Select_Unit_Move_Screen": (TAG, SCREEN),
    "Select_Unit_Attack_Screen": (TAG, SCREEN),
    "Select_Unit_Attack_Unit": (TAG, TAG),
}
"""Orders and what they take. One is to all units of a commander, with `Select_Unit_` to the one that it names first."""

SELECT = "Select_Unit_"

FORMS = " ".join(f"<{name}({', '.join(takes)})>" for name, takes in ORDERS.items())
"""How all orders are written, for who has not learnt it."""


@dataclass(frozen=True)
class Unit:
    """A unit as it is shown. `told` says that nobody of the commander's sees it, and somebody told of it."""

    tag: int
    kind: str
    place: Place
    health: int
    whole: int
    order: str = ""
    distance: int | None = None
    told: bool = False

    @property
    def text(self) -> str:
        parts = [f"{self.kind} {self.tag:#x} at {_cell(self.place)}", f"health {self.health}/{self.whole}"]
        parts += [] if self.distance is None else [f"distance {self.distance}"]
        parts += ["told"] if self.told else []
        parts += [self.order] if self.order else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Picture:
    """What a commander is shown.

    Attributes:
        time: steps so far. size: rows and columns. own, allies, enemies: units that stand and are known.
        knowledge: lines on what units can do and which orders there are. heard: what others sent since the last orders.
        refused: what became of those orders that were refused. commanders: whom it may write to.
    """

    time: int
    size: Place
    own: tuple[Unit, ...]
    allies: tuple[Unit, ...] = ()
    enemies: tuple[Unit, ...] = ()
    knowledge: tuple[str, ...] = ()
    heard: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    commanders: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """In words, a line each."""
        lines = [f"Time: {self.time}"]
        for title, units in (("Own", self.own), ("Ally", self.allies), ("Enemy", self.enemies)):
            lines += [f"{title}: {unit.text}" for unit in units]
        lines += [f"Commanders: {', '.join(self.commanders)}"] if self.commanders else []
        lines += [*self.knowledge, *self.heard, *(f"Refused: {line}" for line in self.refused)]
        return "\n".join(lines)


@dataclass(frozen=True)
class Order:
    """One order: its name and arguments, tags as numbers and places as pairs."""

    name: str
    arguments: tuple[Argument, ...] = ()

    @property
    def text(self) -> str:
        written = (f"{one:#x}" if isinstance(one, int) else _cell(one) for one in self.arguments)
        return f"<{self.name}({', '.join(written)})>"

    @property
    def unit(self) -> int | None:
        """The tag of the one unit that it is to; None where it is to all."""
        first = self.arguments[0] if self.name.startswith(SELECT) and self.arguments else None
        return first if isinstance(first, int) else None

    @property
    def plain(self) -> Order:
        """The same order without whom it is to."""
        return replace(self, name=self.name.removeprefix(SELECT), arguments=self.arguments[self.unit is not None :])


@dataclass(frozen=True)
class Spoken:
    """What a reply says: orders in their order, messages as (to, text), channels to hear, and what is none of these."""

    orders: tuple[Order, ...] = ()
    messages: tuple[tuple[str, str], ...] = ()
    channels: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


_MESSAGE = re.compile(r"<\s*MessageTo\(\s*(\w+)\s*,\s*'''(.*?)'''\s*\)\s*>", re.DOTALL)
_LISTEN = re.compile(r"<\s*ListenTo\(\s*(\w+)\s*\)\s*>")
_ANY = re.compile(r"<\s*(\w+)\s*\(([^<>]*)\)\s*>")
_ARGUMENT = re.compile(r"\s*(?:0[xX]([0-9a-fA-F]+)|\[\s*(-?\d+)\s*,\s*(-?\d+)\s*\])\s*(,|$)")


def read(reply: str) -> Spoken:
    """Everything in a reply that has the form of an order; other words say nothing."""
    messages = tuple((to, " ".join(text.split())) for to, text in _MESSAGE.findall(reply))
    rest = _MESSAGE.sub(" ", reply)
    channels = tuple(_LISTEN.findall(rest))
    orders, unread = [], []
    for found in _ANY.finditer(_LISTEN.sub(" ", rest)):
        arguments = _arguments(found[2])
        if arguments is None:
            unread.append(found[0])
        else:
            orders.append(Order(found[1], arguments))
    return Spoken(tuple(orders), messages, channels, tuple(unread))


def refusal(order: Order, picture: Picture) -> str | None:
    """Why an order cannot be carried out; None where it can."""
    takes = ORDERS.get(order.name)
    if takes is None:
        return f"there is no order {order.name}"
    given = tuple(TAG if isinstance(one, int) else SCREEN for one in order.arguments)
    if given != takes:
        return f"{order.name} takes ({', '.join(takes)})"
    if order.unit is not None and order.unit not in {unit.tag for unit in picture.own}:
        return f"{order.unit:#x} is no unit of yours"
    for one in order.plain.arguments:
        if isinstance(one, int) and one not in {unit.tag for unit in picture.enemies}:
            return f"no enemy {one:#x} is known"
        if not isinstance(one, int) and not all(0 <= at < size for at, size in zip(one, picture.size, strict=True)):
            return f"{_cell(one)} is off the screen"
    return None


def legal(picture: Picture) -> Iterator[Order]:
    """Every order that can be carried out."""
    cells = tuple(product(range(picture.size[0]), range(picture.size[1])))
    own, foes = (tuple(unit.tag for unit in units) for units in (picture.own, picture.enemies))
    for name, takes in ORDERS.items():
        values: list[Sequence[Argument]] = []
        for place, kind in enumerate(takes):
            units = own if name.startswith(SELECT) and not place else foes
            values.append(cells if kind == SCREEN else units)
        for arguments in product(*values):
            yield Order(name, arguments)


def _arguments(text: str) -> tuple[Argument, ...] | None:
    """Arguments as written; None where something is none."""
    found: list[Argument] = []
    place = 0
    while text.strip() and place < len(text):
        one = _ARGUMENT.match(text, place)
        if one is None or (one[4] == "," and not text[one.end() :].strip()):
            return None
        found.append(int(one[1], 16) if one[1] else (int(one[2]), int(one[3])))
        place = one.end()
    return tuple(found)


def _cell(place: Place) -> str:
    return f"[{place[0]}, {place[1]}]"
