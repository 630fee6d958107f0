"""Customers at an order desk as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hocket.agents.workflows.simulated_user import CLOSED, SimulatedUser
from hocket.core.canonical import canonical
from hocket.core.columns import CALLS, DATABASE, SAID
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.methods.agents.mua_rl.reward import DatabaseMatch
from hocket.methods.agents.mua_rl.world import (
    ADDRESSES,
    NOTES,
    WISHES,
    Goal,
    Manner,
    OrderDesk,
    draw_database,
    draw_goal,
)
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons, call_of, talked
from hocket.tasks.split import split_of
from hocket.tasks.text import STEPS, check_number
from hocket.types import Message, Scenario, Trajectory

ORDERS = (2, 80)
"""Bounds of the number of orders."""


@dataclass(frozen=True)
class OrderDeskTask:
    """Databases and goals are drawn without end; which split they belong to, their content decides.

    Attributes:
        orders: in a database. volunteer, deaf, patience: see `Manner`. turns: replies of the agent.
        played: whether a policy plays the customer, in the role `user`.
    """

    orders: int = 4
    volunteer: float = 0.2
    deaf: float = 0.1
    patience: int = 8
    turns: int = 12
    played: bool = False

    def __post_init__(self) -> None:
        if not ORDERS[0] <= self.orders <= ORDERS[1]:
            raise ConfigurationError(f"an order desk has {ORDERS[0]} to {ORDERS[1]} orders, not {self.orders}")
        if self.turns < 1:
            raise ConfigurationError(f"an order desk takes at least 1 turn, not {self.turns}")

    @property
    def name(self) -> str:
        return f"order-desk?orders={self.orders}"

    @property
    def kind(self) -> Literal["text"]:
        return "text"

    @property
    def desk(self) -> OrderDesk:
        """Where talks come from."""
        return OrderDesk(Manner(self.volunteer, self.deaf, self.patience))

    @property
    def workflow(self) -> SimulatedUser:
        """What plays its scenarios."""
        return SimulatedUser(self.desk, self.turns, self.played)

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        key, tries = Key.of(0).derive("order desk", self.orders, split, number), 0
        while True:
            database = draw_database(self.orders, key.derive(tries))
            goal = draw_goal(database, WISHES, key.derive(tries))
            if split_of(canonical([database, goal.wish, dict(goal.slots)])) == split:
                name = f"order_desk?orders={self.orders}/{split}/{number}"
                return self.desk.scenario(name, database, goal, seed=number)
            tries += 1

    @property
    def rewards(self) -> Sequence[Reward]:
        return (DatabaseMatch(),)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {"steps": STEPS, "decoding.max_tokens": 96}

    @property
    def lessons(self) -> Lessons:
        """A clerk who asks for what is missing half of the time and else guesses, and what a customer says to it."""
        taught = "questions, calls of the tools and last words, with guesses in place of half of the questions"
        return Lessons(
            taught + "; and the customer's words" * self.played,
            120 if self.played else 60,
            self._lesson,
            prompts=64,
            then=lambda recipe: THEN,
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        goal = Goal(scenario.metadata["wish"], scenario.metadata["slots"])
        numbers = list(scenario.metadata["database"]["orders"])
        guesses = {"order": numbers, "address": ADDRESSES, "text": NOTES}
        known: dict[str, str] = {}
        tool, _ = (*goal.actions, ("look_up", {}))[0]

        def said(heard: Sequence[Message]) -> str:
            if heard[-1]["role"] == "tool":
                return _told(tool, str(heard[-1]["content"]))
            words = " ".join(str(one["content"]) for one in heard if one["role"] == "user")
            for slot, value in goal.slots.items():
                if slot in known:
                    continue
                if (f"order {value}." if slot == "order" else value) in words:
                    known[slot] = value
                elif rng.random() < ASKS:
                    return f"Which {slot}?"
                else:
                    known[slot] = guesses[slot][int(rng.integers(len(guesses[slot])))]
            return call_of(tool, **known)

        return talked(self.workflow, scenario, said)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`closed`: the customer ended the talk; `asked`: the agent asked something; `called`: it used a tool."""
        asked = any("?" in said for said in SAID.get(trajectory, ()))
        return {
            "closed": float(bool(CLOSED.get(trajectory))),
            "asked": float(asked),
            "called": float(bool(CALLS.get(trajectory))),
        }

    def label(self, trajectory: Trajectory) -> str | None:
        """The final database: talks agree where they end alike."""
        return canonical(DATABASE.get(trajectory)) if DATABASE.present(trajectory) else None

    def success(self, trajectory: Trajectory) -> float:
        return DatabaseMatch().judge(trajectory) or 0.0


ASKS = 0.5
"""How often a beginner asks for what it does not know, each time."""

THEN = {"steps": 20, "update.lr": 2.5e-4, "evaluation.n": 200}
"""What suits after the lessons."""


def _told(tool: str, result: str) -> str:
    """The last words after a call."""
    if result.startswith("error"):
        return "Sorry."
    return f"It is {result.rpartition(' ')[2]}." if tool in ("look_up", "refund") else "Done."


SETTINGS = {"orders": int, "volunteer": float, "deaf": float, "patience": int, "turns": int, "played": bool}


def from_settings(name: str, settings: Mapping[str, str]) -> OrderDeskTask:
    """The task with these settings."""
    return OrderDeskTask(**checked(name, settings, SETTINGS))


ORDER_DESK = TaskForm(
    name="order-desk",
    description="customers at an order desk with tools, e.g. order-desk?orders=4",
    make=from_settings,
    drawn_as="order_desk",
)
