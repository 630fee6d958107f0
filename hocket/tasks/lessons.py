"""Lessons: what a script that plays a task as a beginner says in it, for a short supervised warm start.

A small model knows neither the form of a move nor what is legal, so all its samples earn the same and no group has a
signal. Lessons teach the form and a beginner's play. They are made of training scenarios alone, and never hold more
than the script's own imperfect play.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example
from hocket.core.keys import Key
from hocket.environments.protocol import Environment
from hocket.stages import Reward, Split, Task
from hocket.tasks.form import TaskForm
from hocket.tasks.text import TextTask, check_number
from hocket.types import Message, Scenario
from hocket.workflows.environment import PlayEnvironment

PREFIX = "lessons:"


@dataclass(frozen=True)
class Lesson:
    """One conversation: `prompt`, then `said`, messages of which the assistant's are learnt."""

    prompt: tuple[Message, ...]
    said: tuple[Message, ...]


@dataclass(frozen=True)
class Lessons:
    """What a task teaches a beginner.

    Attributes:
        taught: what that is, to follow "was taught".
        steps: of supervised learning, unless the run says otherwise.
        play: the conversations of one episode of a scenario, drawn with a generator.
    """

    taught: str
    steps: int
    play: Callable[[Scenario, np.random.Generator], Sequence[Lesson]]


@runtime_checkable
class Teaching(Protocol):
    """A task with lessons; None where its settings allow none."""

    @property
    def lessons(self) -> Lessons | None: ...


def lessons_of(task: Task) -> Lessons | None:
    """The lessons of a task, None where it has none."""
    return task.lessons if isinstance(task, Teaching) else None


Beginner = Callable[[Environment, str, np.random.Generator], str]
"""The move of a seat, in words."""


def episode(
    workflow: PlayEnvironment, scenario: Scenario, beginner: Beginner, rng: np.random.Generator
) -> list[Lesson]:
    """What is said in an episode of an environment whose seats the beginner plays, told and read as at rollout."""
    environment = workflow.world.make(scenario)
    environment.reset(Key.of(scenario.seed).derive("environment"))
    talks: list[list[Message]] = []
    latest: dict[str, list[Message]] = {}
    moves = 0
    try:
        while environment.acting and (workflow.turns is None or moves < workflow.turns):
            seen = {seat: environment.observe(seat) for seat in environment.acting}
            made = {seat: beginner(environment, seat, rng) for seat in seen}
            for seat, observation in seen.items():
                first = seat not in latest or not workflow.memory
                if first:
                    latest[seat] = []
                    talks.append(latest[seat])
                reply = workflow.reading_of(observation).written(made[seat], observation.actions)
                latest[seat] += [
                    {"role": "user", "content": workflow.question(observation, first)},
                    {"role": "assistant", "content": reply},
                ]
            environment.act(made)
            moves += len(made)
    finally:
        environment.close()
    return [Lesson(tuple(talk[:1]), tuple(talk[1:])) for talk in talks]


def either(skill: float, planned: Beginner) -> Beginner:
    """Who makes the planned move with probability `skill`, else any legal one."""

    def move(environment: Environment, seat: str, rng: np.random.Generator) -> str:
        legal = environment.observe(seat).actions
        if legal and rng.random() >= skill:
            return legal[int(rng.integers(len(legal)))]
        return planned(environment, seat, rng)

    return move


class LessonTask(TextTask):
    """The lessons of a task as demonstrations without end, one conversation of an episode each.

    They are of the task's training scenarios: those with even numbers to train on, those with odd ones to measure
    how often the answer is word for word the beginner's.

    Raises:
        ConfigurationError: when the task has no lessons.
    """

    example = Example.DEMONSTRATION

    def __init__(self, task: Task, named: str) -> None:
        found = lessons_of(task)
        if found is None:
            raise ConfigurationError(f"task {named} has no lessons; leave --lessons out")
        self.name, self.task, self.lessons_told = PREFIX + named, task, found

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        asked = self.task.scenario("train", 2 * number + (split == "eval"))
        rng = Key.of(0).derive("lessons", self.name, split, number).numpy()
        talks = self.lessons_told.play(asked, rng)
        talk = talks[int(rng.integers(len(talks)))]
        told: dict[str, Any] = {"demonstration": list(talk.said), "of": asked.id}
        if asked.metadata.get("tools"):
            told["tools"] = asked.metadata["tools"]
        return Scenario(f"{self.name}/{split}/{number}", talk.prompt, metadata=told, seed=number)

    def verify(self, text: str, scenario: Scenario) -> float:
        first = next(one for one in scenario.metadata["demonstration"] if one["role"] == "assistant")
        return float(text.strip() == str(first["content"]).strip())

    @property
    def rewards(self) -> Sequence[Reward]:
        return super().rewards

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        length = self.task.suggest(recipe).get("decoding.max_tokens")
        found: dict[str, Any] = {"steps": self.lessons_told.steps, "curriculum.prompts": 64}
        found |= {"evaluation.n": 64, "evaluation.every": 0}
        return found if length is None else {**found, "decoding.max_tokens": length}


def from_name(name: str, settings: Mapping[str, str]) -> LessonTask:
    """The lessons of the task behind the prefix."""
    from hocket import tasks

    named = name.removeprefix(PREFIX)
    if settings:
        named += "?" + "&".join(f"{key}={value}" for key, value in settings.items())
    return LessonTask(tasks.find(named), named)


LESSONS = TaskForm(
    name="lessons:TASK",
    description="how a scripted beginner plays a task, as demonstrations, e.g. lessons:maze",
    make=from_name,
)
