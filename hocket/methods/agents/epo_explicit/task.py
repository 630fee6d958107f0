"""Environments whose agents are advised before every move: `advised:TASK`, e.g. `advised:magpie`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from hocket.agents.workflows.adviser import ADVISER, Advised
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.workflow import with_line
from hocket.core.errors import ConfigurationError
from hocket.stages import Reward, Split
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.nested_task import found_within, turn_by_turn
from hocket.types import Scenario, Trajectory

PREFIX = "advised:"
SYSTEM = "You advise somebody who acts. Say in a line what to do."


@dataclass(frozen=True)
class AdvisedTask:
    """The scenarios of an environment, played by agents that a role `adviser` tells what to do before every move.

    Attributes:
        inner: the task as it is played without advice, each turn a conversation of its own. workflow: how it is played.
        named: its name behind the prefix, with the settings of both.
    """

    inner: EnvironmentTask
    workflow: Advised
    named: str

    @property
    def name(self) -> str:
        return PREFIX + self.named

    @property
    def kind(self) -> Literal["text"]:
        return "text"

    def size(self, split: Split) -> int | None:
        return self.inner.size(split)

    def scenario(self, split: Split, number: int) -> Scenario:
        return self.inner.scenario(split, number)

    @property
    def rewards(self) -> Sequence[Reward]:
        """None: what is played pays by itself."""
        return ()

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return self.inner.suggest(recipe)

    @property
    def lessons(self) -> Lessons | None:
        """The inner task's, said twice: a beginner's move is what the adviser says, and what who hears it then does."""
        inner = self.inner.lessons
        if inner is None:
            return None
        return replace(
            inner,
            taught=f"{inner.taught}; to advise so, and to do as advised",
            steps=2 * inner.steps,
            play=lambda scenario, rng: self._said(inner, scenario, rng),
            talks=2 * inner.talks,
            beginners=(),
        )

    def _said(self, inner: Lessons, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        found = []
        advised = [self.inner.workflow.role(seat) for seat in self.inner.workflow.world.agents]
        told = set(self.workflow.advised) & set(advised)
        for lesson in inner.play(scenario, rng):
            if told != set(advised):
                found.append(lesson)  # Somebody acts without advice.
            advice = str(lesson.said[0]["content"])
            heard = with_line(lesson.prompt, f"{self.workflow.lead}: {advice}")
            found.append(Lesson(({"role": "system", "content": self.workflow.system}, *lesson.prompt), lesson.said))
            found.append(Lesson(tuple(heard), lesson.said))
        return found

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        return self.inner.describe(self._acted(trajectory))

    def label(self, trajectory: Trajectory) -> str | None:
        return self.inner.label(self._acted(trajectory))

    def success(self, trajectory: Trajectory) -> float:
        return self.inner.success(self._acted(trajectory))

    @staticmethod
    def _acted(trajectory: Trajectory) -> Trajectory:
        """An episode without the advice."""
        return replace(trajectory, turns=[turn for turn in trajectory.turns if turn.role != ADVISER])


def from_settings(name: str, settings: Mapping[str, str]) -> AdvisedTask:
    """The environment behind the prefix; the setting `who` names the roles that are advised, commas between them."""
    inner, mine, named = found_within(PREFIX, name, settings, {"who": str})
    flow = PlayEnvironment(**turn_by_turn(inner.workflow))
    bare = replace(inner, workflow=flow)
    try:
        return AdvisedTask(bare, Advised(flow, system=SYSTEM, **mine), named)
    except ValueError as error:
        raise ConfigurationError(f"task {name}: {error}") from None


ADVISED = TaskForm(
    name="advised:TASK",
    description="an environment whose agents are advised before every move, e.g. advised:magpie or ?who=ann",
    make=from_settings,
)
