"""Lessons: conversations of a script that plays a task as a beginner, for a short supervised warm start.

A small model knows neither the form of a move nor the legal moves, so all its samples have equal rewards and no group
has a signal. Lessons teach the form and a beginner's play. They use only training scenarios, and contain only the
script's imperfect play.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from hocket.agents.environments.protocol import Environment
from hocket.agents.tools.protocol import Tool, carried_out, read_calls
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.fitting import Fit
from hocket.agents.workflows.simulated_user import SimulatedUser
from hocket.agents.workflows.team import Team
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.examples import Example
from hocket.core.keys import Key
from hocket.core.names import drawn_as
from hocket.stages import Split, Task
from hocket.tasks.form import TaskForm
from hocket.tasks.text import TextTask, check_number
from hocket.types import Message, Scenario

Result = TypeVar("Result")

PREFIX = "lessons:"

RATE = 3e-3
"""The learning rate of lessons for the shipped model, at which some forty steps teach a form."""

READING = 1e-3
"""The same for the shipped models that read pictures or sounds."""

ADAPTED, WHOLE = 5e-4, 5e-5
"""The learning rate of lessons for other models, measured with an adapter of SmolLM2-135M; a tenth for full weights.

Policies' default rates for their size (`LanguageModel.default_lr`) have the same ratio.
"""


@dataclass(frozen=True)
class Lesson:
    """A conversation: `prompt`, then the messages `said`, of which the assistant's are learnt; `tools` are listed."""

    prompt: tuple[Message, ...]
    said: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Reflecting:
    """The lessons of a searcher's reflecting roles.

    Attributes:
        task: the name of the task whose lessons teach them. settings: settings of the searcher for a model after these
            lessons: the wording of its questions.
    """

    task: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Lessons:
    """The lessons of a task.

    Attributes:
        taught: the content, as a phrase after "lessons teach".
        steps: the default number of supervised steps; 0 if lessons are only given on request.
        play: the conversations of one episode of a scenario, drawn with a generator.
        talks: the number of consecutive lessons from the same episode, if it has many.
        prompts: lessons in a step. schedule: that of their learning rate, as in `hocket.update.GradientStep`.
        then: dotted settings for training after the lessons; those of the recipe or the run have precedence. A learning
            rate is for the shipped model only.
        beginners: roles that stay frozen after the lessons, unless the recipe is for several agents.
        searchers: the searchers whose reflecting roles the task can teach, by name.
        needed: whether the shipped model earns nothing without them, so that recipes have them on their own task and
            with their own workflow too.
    """

    taught: str
    steps: int
    play: Callable[[Scenario, np.random.Generator], Sequence[Lesson]]
    talks: int = 1
    prompts: int = 32
    schedule: str = "constant"
    then: Callable[[Any], Mapping[str, Any]] = field(default=lambda recipe: {})
    beginners: tuple[str, ...] = ()
    searchers: Mapping[str, Reflecting] = field(default_factory=dict)
    needed: bool = False


@runtime_checkable
class Teaching(Protocol):
    """A task with lessons; None if its settings allow none."""

    @property
    def lessons(self) -> Lessons | None: ...


def lessons_of(task: Task) -> Lessons | None:
    """The lessons of a task; None if it has none."""
    return task.lessons if isinstance(task, Teaching) else None


Beginner = Callable[[Environment, str, np.random.Generator], str]
"""The move of a seat, in words."""


def episode(
    workflow: PlayEnvironment, scenario: Scenario, beginner: Beginner, rng: np.random.Generator
) -> list[Lesson]:
    """The conversations of an episode in which the beginner plays all seats, written and read as in a rollout."""
    environment = workflow.world.make(scenario)
    environment.reset(Key.of(scenario.seed).derive("environment"))
    talks: list[list[Message]] = []
    latest: dict[str, list[Message]] = {}
    moves = 0
    try:
        while environment.acting and (workflow.turns is None or moves < workflow.turns):
            observations = {seat: environment.observe(seat) for seat in environment.acting}
            made = {seat: beginner(environment.bare, seat, rng) for seat in observations}
            for seat, observation in observations.items():
                first = seat not in latest or not workflow.memory
                if first:
                    latest[seat] = []
                    talks.append(latest[seat])
                reply = workflow.reading_of(observation).written(made[seat], observation.actions)
                latest[seat] += [
                    {"role": "user", "content": observation.beside(workflow.question(observation, first))},
                    {"role": "assistant", "content": reply},
                ]
            environment.act(made)
            moves += len(made)
    finally:
        environment.close()
    return [Lesson(tuple(talk[:1]), tuple(talk[1:])) for talk in talks]


def any_move(environment: Environment, seat: str, rng: np.random.Generator) -> str:
    """A legal move, drawn uniformly."""
    legal = environment.observe(seat).actions or ()
    return legal[int(rng.integers(len(legal)))]


def either(skill: float, planned: Beginner) -> Beginner:
    """A player that makes the planned move with probability `skill`, else any legal one."""

    def move(environment: Environment, seat: str, rng: np.random.Generator) -> str:
        return (planned if rng.random() < skill else any_move)(environment, seat, rng)

    return move


Speaker = Callable[[Sequence[Message]], str]
"""A speaker: the next message after all earlier messages, without the system message."""


def talked(workflow: SimulatedUser, scenario: Scenario, speaker: Speaker) -> list[Lesson]:
    """The conversation with the scripted user of a workflow; if a policy plays the user, also the user's side.

    The script is then the user's beginner: it says its own words to an agent, and the closing word where it leaves.
    """
    key = Key.of(scenario.seed).derive("lessons")
    script = workflow.at.visit(scenario, key).user

    def played(heard: Sequence[Message]) -> str:
        opened = sum(message["role"] == "assistant" for message in heard)
        text = at_once(script.reply(str(heard[-1]["content"])) if opened else script.open())
        return workflow.closing if text is None else text

    agent, user = _Speaking(speaker), _Speaking(played)
    at_once(workflow.play(scenario, cast(Team, SimpleNamespace(key=key, agent=agent, user=user))))
    agent.system = workflow.prompts["agent"]
    lesson = agent.lesson(tuple(workflow.tools["agent"]))
    return [lesson, user.lesson()] if workflow.played else [lesson]


def called(tools: Sequence[Tool], scenario: Scenario, speaker: Speaker, turns: int) -> list[Lesson]:
    """The conversation of an agent that may call tools before it answers."""
    heard = list(scenario.messages)
    length = len(heard)
    for _ in range(turns):
        text = speaker(heard)
        heard.append({"role": "assistant", "content": text})
        calls = read_calls(text)
        if not calls:
            break
        heard += [{"role": "tool", "content": at_once(carried_out(call, tools))} for call in calls]
    while heard[-1]["role"] == "tool":
        heard.pop()
    return [Lesson(tuple(heard[:length]), tuple(heard[length:]), tuple(tool.schema for tool in tools))]


def call_of(name: str, /, **arguments: str) -> str:
    """How a tool is called."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class _Speaking:
    """One side of a talk."""

    def __init__(self, speaker: Speaker) -> None:
        self.speaker, self.heard, self.system = speaker, list[Message](), ""

    def fresh(self, *, system: str) -> _Speaking:
        self.system = system
        return self

    async def __call__(self, messages: Sequence[Message] | str) -> Any:
        self.heard += [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        text = self.speaker(self.heard)
        self.heard.append({"role": "assistant", "content": text})
        return SimpleNamespace(text=text)

    def lesson(self, tools: tuple[Mapping[str, Any], ...] = ()) -> Lesson:
        """The conversation so far: system message, question, and the messages after it."""
        return Lesson(({"role": "system", "content": self.system}, self.heard[0]), tuple(self.heard[1:]), tools)


def at_once(work: Coroutine[Any, Any, Result]) -> Result:
    """What comes of `work` that waits for nobody, without an event loop of its own.

    Raises:
        HocketError: when it does wait.
    """
    try:
        work.send(None)
    except StopIteration as ended:
        return cast(Result, ended.value)
    raise HocketError("a lesson waits for something outside; give its task tools and users that answer at once")


class LessonTask(TextTask):
    """The lessons of a task as demonstrations without end, one conversation of an episode each.

    They are of the task's training scenarios: those with even numbers to train on, those with odd ones to measure
    how often the answer is word for word the beginner's.

    Raises:
        ConfigurationError: when the task has no lessons.
    """

    example = Example.DEMONSTRATION
    fit = Fit(truncate="end")

    def __init__(self, task: Task, named: str) -> None:
        lessons = lessons_of(task)
        if lessons is None:
            raise ConfigurationError(f"task {named} has no lessons; leave --lessons out")
        self.name, self.task, self.lessons = PREFIX + named, task, lessons
        self._drawn_as = PREFIX + drawn_as(named)
        self._played = lru_cache(maxsize=8)(self._episode)

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        scenario, talks = self._played(split, number // self.lessons.talks)
        talk = talks[number % self.lessons.talks % len(talks)]
        metadata: dict[str, Any] = {"demonstration": list(talk.said), "of": scenario.id}
        if talk.tools:
            metadata["tools"] = list(talk.tools)
        return Scenario(f"{self._drawn_as}/{split}/{number}", talk.prompt, metadata=metadata, seed=number)

    def _episode(self, split: Split, number: int) -> tuple[Scenario, list[Lesson]]:
        """A scenario of the task, and its conversations in random order."""
        size = self.task.size("train")
        number_there = 2 * number + (split == "eval")
        scenario = self.task.scenario("train", number_there if size is None else number_there % size)
        rng = Key.of(0).derive("lessons", self._drawn_as, split, number).numpy()
        talks = self.lessons.play(scenario, rng)
        return scenario, [talks[place] for place in rng.permutation(len(talks)).tolist()]

    def remark(self, steps: int) -> str:
        """A remark for a run that begins with these lessons."""
        return f"lessons of {steps} steps teach {self.lessons.taught}; --lessons 0 leaves them out"

    def verify(self, text: str, scenario: Scenario) -> float:
        first = next(message for message in scenario.metadata["demonstration"] if message["role"] == "assistant")
        return float(text.strip() == str(first["content"]).strip())

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        suggested = self.task.suggest(recipe)
        settings: dict[str, Any] = {"steps": self.lessons.steps, "curriculum.prompts": self.lessons.prompts}
        settings |= {"evaluation.n": 64, "evaluation.every": 0}
        if self.lessons.schedule != "constant":
            settings["update.schedule"] = self.lessons.schedule
        return settings | {key: suggested[key] for key in ("model", "decoding.max_tokens") if key in suggested}


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
    family="words",
    make=from_name,
)
