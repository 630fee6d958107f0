"""Customers at an order desk as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hocket.core.canonical import canonical
from hocket.core.columns import CALLS, SAID
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.method_columns import CLOSED, DATABASE
from hocket.core.options import checked
from hocket.environments.order_desk import WISHES, Manner, OrderDesk, draw_database, draw_goal
from hocket.rewards.database_hash import DatabaseMatch
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import STEPS, check_number
from hocket.types import Scenario, Trajectory
from hocket.workflows.simulated_user import SimulatedUser

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
        return f"order_desk?orders={self.orders}"

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
                return self.desk.scenario(f"{self.name}/{split}/{number}", database, goal, seed=number)
            tries += 1

    @property
    def rewards(self) -> Sequence[Reward]:
        return (DatabaseMatch(),)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {"steps": STEPS, "decoding.max_tokens": 96}

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


SETTINGS = {"orders": int, "volunteer": float, "deaf": float, "patience": int, "turns": int, "played": bool}


def from_settings(name: str, settings: Mapping[str, str]) -> OrderDeskTask:
    """The task with these settings."""
    return OrderDeskTask(**checked(name, settings, SETTINGS))


ORDER_DESK = TaskForm(
    name="order_desk",
    description="customers at an order desk with tools, e.g. order_desk?orders=4",
    make=from_settings,
)
