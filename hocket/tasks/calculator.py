"""Calculations that a small model cannot do without a calculator, which is its tool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hocket.agents.tools.calculator import Calculator, calculator
from hocket.agents.workflows.tool_use import ToolUse
from hocket.agents.workflows.workflow import Workflow
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.arithmetic import question_of, verify
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons, call_of, called
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Message, Scenario


class Calculations(TextTask):
    """Products of integers of two to `digits` digits, plus or minus a third; the calculator is live.

    Args:
        digits: the largest number of digits of the larger factors. listed: whether the chat template lists the tool. An
            unlisted tool also works, so a model that knows the form of calls can discover it.
        calls: the share of demonstrations (for a first phase of `sft`) that call the tool; the others answer at once.
        call_reward: the reward of a turn for valid calls.
        turns: replies per problem, calls included.
        lessons: supervised steps before training by default. The shipped model calls once whatever is asked; after
            lessons it also calls again, or guesses.
    """

    def __init__(
        self,
        digits: int = 3,
        listed: bool = True,
        calls: float = 1.0,
        call_reward: float = 0.0,
        turns: int = 3,
        lessons: int = 0,
    ) -> None:
        if not 2 <= digits <= 6:
            raise ConfigurationError(f"task calculator: digits must lie between 2 and 6, not {digits}")
        if not 0 <= calls <= 1:
            raise ConfigurationError(f"task calculator: calls is a share in [0, 1], not {calls}")
        if turns < 1:
            raise ConfigurationError(f"task calculator: turns must be at least 1, not {turns}")
        if lessons < 0:
            raise ConfigurationError(f"task calculator: lessons must be at least 0, not {lessons}")
        others = f"&turns={turns}" * (turns != 3) + f"&lessons={lessons}" * (lessons != 0)
        self.name = f"calculator?digits={digits}&listed={str(listed).lower()}{others}"
        self.digits, self.listed, self.calls, self.call_reward = digits, listed, calls, call_reward
        self.turns, self.taught = turns, lessons

    @property
    def workflow(self) -> Workflow:
        return ToolUse((Calculator(),), turns=self.turns, listed=self.listed, call_reward=self.call_reward)

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("calculator", split, number).numpy()
        while True:
            first, second = (int(rng.integers(10, 10**self.digits)) for _ in range(2))
            sign, third = ("+", "-")[int(rng.integers(2))], int(rng.integers(1, 1000))
            expression = f"{first} * {second} {sign} {third}"
            question = question_of(expression)
            # Training problems may come from both parts that evaluation never uses.
            if (split_of(question) == "eval") == (split == "eval"):
                answer = calculator(expression)
                shown = {
                    "demonstration": demonstration(expression, answer, called=bool(rng.random() < self.calls)),
                    "expression": expression,
                }
                return Scenario(f"calculator/{split}/{number}", question, answer, shown, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    @property
    def lessons(self) -> Lessons:
        """Conversations with any number of repeated calls that the turns allow, or none."""
        return Lessons(
            "calls of the calculator, some of them made again, some left out for a guess",
            self.taught,
            self._lesson,
            then=lambda recipe: THEN,
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        expression = str(scenario.metadata["expression"])
        calls, guess = int(rng.integers(self.turns)), str(rng.integers(10**self.digits))

        def reply_to(heard: Sequence[Message]) -> str:
            made = sum(message["role"] == "tool" for message in heard)
            if made < calls:
                return call_of(Calculator.name, expression=expression)
            return f"<answer>{heard[-1]['content'] if made else guess}</answer>"

        lessons = called((Calculator(),), scenario, reply_to, self.turns)
        return lessons if self.listed else [replace(lesson, tools=()) for lesson in lessons]

    def verify(self, text: str, scenario: Scenario) -> float:
        return verify(text, scenario.answer)


THEN = {"steps": 20, "curriculum.prompts": 8, "update.lr": 2.5e-4}
"""Settings for training after the lessons."""


def demonstration(expression: str, answer: str, *, called: bool) -> str | list[Message]:
    """A right answer, at once or after a call."""
    text = f"<answer>{answer}</answer>"
    if not called:
        return text
    call = json.dumps({"name": Calculator.name, "arguments": {"expression": expression}})
    return [
        {"role": "assistant", "content": f"<tool_call>{call}</tool_call>"},
        {"role": "tool", "content": answer},
        {"role": "assistant", "content": text},
    ]


def from_settings(name: str, settings: Mapping[str, str]) -> Calculations:
    """The task with these settings."""
    known = {"digits": int, "listed": bool, "calls": float, "call_reward": float, "turns": int, "lessons": int}
    return Calculations(**checked(name, settings, known))


CALCULATIONS = TaskForm(
    name="calculator",
    description="products that need the calculator tool, e.g. calculator?digits=3&listed=false",
    family="words",
    make=from_settings,
)
