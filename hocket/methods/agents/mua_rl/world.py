"""An order desk: a database of orders, five tools that work on it, and customers who tell what they are asked for."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

from hocket.agents.workflows.simulated_user import TalkDesk
from hocket.core.canonical import database_hash
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.types import Scenario

Item = TypeVar("Item")

Database = dict[str, Any]
"""`{"orders": {number: {item, price, address, state, notes}}}`; numbers are text."""

Wish = Literal["address", "cancel", "refund", "note", "track"]
WISHES: tuple[Wish, ...] = ("address", "cancel", "refund", "note", "track")

ITEMS = ("lamp", "chair", "kettle", "clock", "rug", "mirror")
ADDRESSES = ("Elm 4", "Oak 7", "Ash 9", "Fir 2")
NOTES = ("fragile", "ring twice", "gift")
STATES = ("open", "delivered")


# ---------------------------------------------------------------- tools


class DeskError(Exception):
    """What a tool refuses, in a sentence."""


def _order(database: Database, arguments: Mapping[str, Any]) -> dict[str, Any]:
    orders: dict[str, dict[str, Any]] = database["orders"]
    number = str(arguments.get("order", ""))
    if number not in orders:
        raise DeskError("there is no such order")
    return orders[number]


def _text(arguments: Mapping[str, Any], name: str) -> str:
    said = arguments.get(name)
    if not isinstance(said, str) or not said.strip() or len(said) > 100:
        raise DeskError(f"{name} must be a short text")
    return said.strip()


def look_up(database: Database, arguments: Mapping[str, Any]) -> str:
    """An order as it stands."""
    order = _order(database, arguments)
    return f"{order['item']}, price {order['price']}, to {order['address']}, {order['state']}"


def change_address(database: Database, arguments: Mapping[str, Any]) -> str:
    """Sends an open order elsewhere."""
    order = _order(database, arguments)
    _in_state(order, "open")
    order["address"] = _text(arguments, "address")
    return "changed"


def cancel(database: Database, arguments: Mapping[str, Any]) -> str:
    """Cancels an open order."""
    order = _order(database, arguments)
    _in_state(order, "open")
    order["state"] = "cancelled"
    return "cancelled"


def refund(database: Database, arguments: Mapping[str, Any]) -> str:
    """Pays a delivered order back."""
    order = _order(database, arguments)
    _in_state(order, "delivered")
    order["state"] = "refunded"
    return f"refunded {order['price']}"


def add_note(database: Database, arguments: Mapping[str, Any]) -> str:
    """Notes something on an order."""
    order = _order(database, arguments)
    order["notes"].append(_text(arguments, "text"))
    return "noted"


def _in_state(order: Mapping[str, Any], state: str) -> None:
    if order["state"] != state:
        raise DeskError(f"the order is {order['state']}")


Handler = Callable[[Database, Mapping[str, Any]], str]
HANDLERS: Mapping[str, tuple[Handler, tuple[str, ...]]] = {
    "look_up": (look_up, ("order",)),
    "change_address": (change_address, ("order", "address")),
    "cancel": (cancel, ("order",)),
    "refund": (refund, ("order",)),
    "add_note": (add_note, ("order", "text")),
}
"""What each tool does, and what it is given."""


@dataclass(frozen=True, eq=False)
class DeskTool:
    """A tool on one episode's copy of the database."""

    name: str
    database: Database

    @property
    def schema(self) -> Mapping[str, Any]:
        """What it takes, in the form of `apply_chat_template(tools=...)`."""
        return schema_of(self.name)

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        """What the tool answers; a refusal is told, never raised."""
        return self.call(arguments)

    def call(self, arguments: Mapping[str, Any]) -> str:
        """The same, at once."""
        try:
            return HANDLERS[self.name][0](self.database, arguments)
        except DeskError as error:
            return f"error: {error}"


def schema_of(name: str) -> Mapping[str, Any]:
    """The schema of a tool by its name."""
    handler, given = HANDLERS[name]
    parameters = {"type": "object", "properties": {one: {"type": "string"} for one in given}, "required": list(given)}
    description = (handler.__doc__ or "").strip()
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def tools_on(database: Database) -> tuple[DeskTool, ...]:
    """The five tools."""
    return tuple(DeskTool(name, database) for name in HANDLERS)


# ---------------------------------------------------------------- goals


@dataclass(frozen=True)
class Goal:
    """What a customer wants. `slots` are what an agent must know: `order`, and `address` or `text` with it."""

    wish: Wish
    slots: Mapping[str, str]

    @property
    def actions(self) -> tuple[tuple[str, Mapping[str, str]], ...]:
        """The right calls, in order."""
        names = {"address": "change_address", "cancel": "cancel", "refund": "refund", "note": "add_note"}
        return ((names[self.wish], self.slots),) if self.wish in names else ()

    def outputs(self, database: Database) -> tuple[str, ...]:
        """What the customer must be told, in a database as it was at first."""
        order = database["orders"][self.slots["order"]]
        if self.wish == "refund":
            return (str(order["price"]),)
        return (str(order["state"]),) if self.wish == "track" else ()

    def done(self, database: Database) -> Database:
        """The database after the right calls; the one given stays as it is.

        Raises:
            ConfigurationError: when a right call is refused.
        """
        after = copy.deepcopy(database)
        for name, arguments in self.actions:
            said = DeskTool(name, after).call(arguments)
            if said.startswith("error"):
                raise ConfigurationError(f"the goal {self.wish} of {self.slots} cannot be reached: {said}")
        return after

    def known(self, database: Database) -> Mapping[str, Any]:
        """What a scenario's metadata say of it: `final_hash` and `outputs`."""
        return {"final_hash": database_hash(self.done(database)), "outputs": list(self.outputs(database))}


def draw_database(orders: int, key: Key) -> Database:
    """A database of so many orders, some open and some delivered."""
    rng = key.derive("orders").numpy()
    numbers = sorted((rng.permutation(90)[:orders] + 10).tolist())
    states = [STATES[place % 2] for place in rng.permutation(orders).tolist()]
    prices = (rng.permutation(90)[:orders] + 10).tolist()
    return {
        "orders": {
            str(number): {
                "item": _pick(ITEMS, rng),
                "price": price,
                "address": _pick(ADDRESSES, rng),
                "state": state,
                "notes": [],
            }
            for number, state, price in zip(numbers, states, prices, strict=True)
        }
    }


def goals(database: Database, wishes: Iterable[Wish] = WISHES) -> list[Goal]:
    """Every goal that can be reached and, but for tracking, changes something."""
    found = []
    for number, order in database["orders"].items():
        for wish in wishes:
            if wish == "address" and order["state"] == "open":
                others = [address for address in ADDRESSES if address != order["address"]]
                found += [Goal(wish, {"order": number, "address": address}) for address in others]
            if wish == "note":
                found += [Goal(wish, {"order": number, "text": text}) for text in NOTES]
            reachable = {"cancel": "open", "refund": "delivered"}.get(wish)
            if wish == "track" or reachable == order["state"]:
                found.append(Goal(wish, {"order": number}))
    return found


def draw_goal(database: Database, wishes: Sequence[Wish], key: Key) -> Goal:
    """A wish that can be had, and a goal of it, each drawn evenly."""
    rng = key.derive("goal").numpy()
    known = goals(database, wishes)
    if not known:
        raise ConfigurationError("no wish can be had with these orders")
    wish = _pick(sorted({goal.wish for goal in known}), rng)
    return _pick([goal for goal in known if goal.wish == wish], rng)


def _pick(items: Sequence[Item], rng: np.random.Generator) -> Item:
    return items[int(rng.integers(len(items)))]


# ---------------------------------------------------------------- customers

OPENINGS: Mapping[Wish, str] = {
    "address": "I want to change the address of an order.",
    "cancel": "I want to cancel an order.",
    "refund": "I want my money back for an order. How much is it?",
    "note": "Please put a note on an order.",
    "track": "How far is my order?",
}
_ASKED = {
    "order": re.compile(r"\b(order|number)\b", re.IGNORECASE),
    "address": re.compile(r"\b(address|where)\b", re.IGNORECASE),
    "text": re.compile(r"\b(note|text|say)\b", re.IGNORECASE),
}
_TOLD = {"order": "It is order {}.", "address": "It is {}.", "text": "It is: {}"}
PUZZLED = "What do you mean?"
DEAF = "Sorry, what?"


@dataclass(frozen=True)
class Manner:
    """How a customer talks.

    Attributes:
        volunteer: how often the order's number stands in the opening. deaf: how often a question must be asked again.
        patience: messages of the agent after which the customer leaves.
    """

    volunteer: float = 0.0
    deaf: float = 0.0
    patience: int = 8

    def __post_init__(self) -> None:
        if not (0 <= self.volunteer <= 1 and 0 <= self.deaf < 1 and self.patience >= 1):
            raise ConfigurationError(
                f"volunteer = {self.volunteer} must lie in [0, 1], deaf = {self.deaf} in [0, 1), patience = "
                f"{self.patience} be at least 1"
            )


@dataclass(eq=False)
class Customer:
    """A scripted customer with a hidden goal: says what it wants, tells what it is asked for, and no more.

    A message with a question mark is a question, answered with the slots it names; any other one ends the talk. What
    the customer happens to say depends on its key and on how often it has spoken.
    """

    goal: Goal
    manner: Manner
    key: Key
    _spoken: int = field(default=0, init=False)

    async def open(self) -> str:
        """The first words."""
        opening = OPENINGS[self.goal.wish]
        if self.key.derive("volunteer").numpy().random() < self.manner.volunteer:
            return f"{opening} {_TOLD['order'].format(self.goal.slots['order'])}"
        return opening

    async def reply(self, said: str) -> str | None:
        """The answer to a message; None when the customer leaves."""
        self._spoken += 1
        if "?" not in said or self._spoken >= self.manner.patience:
            return None
        if self.key.derive("deaf", self._spoken).numpy().random() < self.manner.deaf:
            return DEAF
        told = [_TOLD[slot].format(value) for slot, value in self.goal.slots.items() if _ASKED[slot].search(said)]
        return " ".join(told) or PUZZLED


def ceiling(known: Sequence[tuple[Database, Goal]], manner: Manner) -> float:
    """How often an agent that never asks can be right at best, over equally likely pairs of database and goal.

    It may read the whole database, hears the opening, and knows how likely goals are; what must be said it can say, so
    that only the final database counts.
    """
    total = 0.0
    for chance, told in ((1 - manner.volunteer, False), (manner.volunteer, True)):
        seen: dict[tuple[str, ...], Counter[str]] = {}
        for database, goal in known:
            heard = (database_hash(database), goal.wish, goal.slots["order"] if told else "")
            seen.setdefault(heard, Counter())[database_hash(goal.done(database))] += 1
        total += chance * sum(max(ends.values()) for ends in seen.values()) / len(known)
    return total


# ---------------------------------------------------------------- talks

PROMPT = "You work at an order desk. Ask for what you must know, use the tools, then tell the customer the result."


@dataclass(frozen=True)
class CustomerVisit:
    """One customer at the desk; see `hocket.agents.workflows.simulated_user.Visit`."""

    user: Customer
    tools: tuple[DeskTool, ...]
    database: Database
    instruction: str
    briefing: str = ""

    def closes(self, said: str) -> bool:
        """Never: the customer ends the talk."""
        return False


@dataclass(frozen=True)
class OrderDesk:
    """The desk as a place where talks come from; see `hocket.agents.workflows.simulated_user.TalkSource`.

    A scenario's metadata say the `database` at first and the customer's `wish` and `slots`.
    """

    manner: Manner = Manner()
    prompt: str = PROMPT

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        """The schemas of the five tools."""
        return tuple(schema_of(name) for name in HANDLERS)

    def visit(self, scenario: Scenario, key: Key) -> CustomerVisit:
        """A customer with the scenario's goal, and a copy of its database."""
        database = copy.deepcopy(dict(scenario.metadata["database"]))
        goal = Goal(scenario.metadata["wish"], scenario.metadata["slots"])
        slots = ", ".join(f"{name} {value}" for name, value in goal.slots.items())
        instruction = f"You are a customer. You think: {OPENINGS[goal.wish]} You know: {slots}. Tell it when asked."
        return CustomerVisit(
            Customer(goal, self.manner, key.derive("customer")), tools_on(database), database, instruction
        )

    def scenario(self, name: str, database: Database, goal: Goal, **fields: Any) -> Scenario:
        """A scenario of a goal."""
        told = {"database": database, "wish": goal.wish, "slots": dict(goal.slots), **goal.known(database)}
        right = [{"name": called, "arguments": dict(arguments)} for called, arguments in goal.actions]
        return Scenario(name, self.prompt, json.dumps(right), metadata=told, **fields)


ORDER_DESK = TalkDesk(name="order-desk", make=OrderDesk)
