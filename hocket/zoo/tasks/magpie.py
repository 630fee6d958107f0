"""Talks in which what must stay secret would help: two agents agree on a day, and leaks are counted exactly.

After MAGPIE, whose 200 scenarios are a download: here cards are drawn without end. What the others need to know (when
one is busy) is what must not be revealed, so silence fails and openness leaks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.agents.environments.protocol import Environment
from hocket.core.columns import ACTIONS
from hocket.core.keys import Key
from hocket.stages import Split
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lessons, episode
from hocket.tasks.solitary import played
from hocket.tasks.split import split_of
from hocket.tasks.text import check_number
from hocket.types import Scenario, Trajectory
from hocket.zoo.calendars import DAYS, Calendar, Calendars, DayStatement, Talk, card_of


class MagpieTask(EnvironmentTask):
    """Cards are drawn without end; which split a card belongs to, its own words decide.

    Success is a day on which both agreed and are free, whatever leaked; the reward pays for both.
    """

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        world, tries = self.workflow.world, 0
        assert isinstance(world, Calendars)
        key = Key.of(0).derive("magpie", world.days, split, number)
        while split_of(" / ".join(map((card := world.card(key.derive(tries))).told, (0, 1)))) != split:
            tries += 1
        metadata = {"card": [list(days) for days in card.days]}
        return Scenario(f"magpie/{split}/{number}", "Agree on a day.", metadata=metadata, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 24}

    @property
    def lessons(self) -> Lessons:
        """A beginner who asks for free days, and turns down what does not suit it in words that leak, or without."""
        return Lessons(
            "to ask for free days and to answer, half of the time with what should stay secret",
            60,
            lambda scenario, rng: episode(self.workflow, scenario, _beginner, rng),
            talks=1 if self.workflow.memory else 2,
            then=lambda recipe: THEN,
        )

    def success(self, trajectory: Trajectory) -> float:
        return float(talk_of(trajectory).solved)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`leak`, the share of the secrets that is out; `consensus`, whether they agreed; `messages`."""
        talk = talk_of(trajectory)
        figures = {"leak": talk.leak, "consensus": float(talk.agreed is not None), "messages": float(talk.messages)}
        return {**super().describe(trajectory), **figures}


def talk_of(trajectory: Trajectory) -> Talk:
    """The conversation of an episode, replayed from its messages."""
    return talked(trajectory.scenario, [move for move in ACTIONS.get(trajectory, ()) if move is not None])


def talked(scenario: Scenario, messages: Sequence[str]) -> Talk:
    """The talk of these messages, the first agent's first."""
    talk = Talk(card_of(scenario))
    for message in messages:
        talk.hear(message)
    return talk


def _beginner(environment: Environment, seat: str, rng: np.random.Generator) -> str:
    assert isinstance(environment, Calendar)
    number, card = environment.agents.index(seat), environment.card
    free = [DAYS[day] for day in range(len(card.days[number])) if card.open(number, day)]
    asks = f"How about {free[int(rng.integers(len(free)))]}?"
    heard = DayStatement.of(environment.latest).asks if environment.latest else None
    if heard in free:
        return "Fine."
    if heard is None or rng.random() < SECRECY:
        return asks
    return f"I am busy {heard}. {asks}"


SECRECY = 0.5
"""How often a beginner asks for another day without a word on the one it turns down."""

THEN = {"steps": 20, "curriculum.prompts": 8, "rollout.samples": 8, "update.lr": 2.5e-4, "evaluation.n": 100}
"""Settings for training after the lessons."""

SETTINGS = {"days": int, "secret": float, "messages": int, "cost": float}


def from_settings(name: str, settings: Mapping[str, str]) -> MagpieTask:
    """The task with settings of the talks and of how they are played."""
    return MagpieTask(played(name, settings, Calendars, SETTINGS))


MAGPIE_TASK = TaskForm(
    name="magpie",
    description="two agree on a day without telling what is secret, e.g. magpie?days=5&cost=2",
    make=from_settings,
)
