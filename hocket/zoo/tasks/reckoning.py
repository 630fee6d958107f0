"""Questions that take a search and a program, one of them or neither, small enough for the shipped model to learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hocket.agents.tools.calculator import calculator
from hocket.agents.tools.protocol import Tool
from hocket.agents.tools.python import PythonTool
from hocket.agents.tools.search import Search
from hocket.agents.workflows.tool_use import ToolUse
from hocket.agents.workflows.workflow import Workflow
from hocket.core.columns import CALLS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.options import checked
from hocket.rewards.verifiers import equal
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons, call_of, called
from hocket.tasks.text import TextTask, check_number
from hocket.types import Message, Scenario, Trajectory
from hocket.zoo.tasks.lookup import facts, held, index_of

KINDS = ("both", "search", "neither")


class Expressions:
    """Python for expressions of integers with +, - and *, worked out in this process; anything else is an error."""

    name = "python"
    schema: Mapping[str, Any] = PythonTool.schema

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        code = arguments.get("code")
        return calculator(code) if isinstance(code, str) else "error: python needs code"


class Reckoning(TextTask):
    """Sums in which a number may stand only where a search finds it.

    Questions are of three kinds by turns: `both` adds to the number of a thing, so that it takes a search and then a
    sum, in the head or by Python; `search` asks for the number alone; `neither` is a sum of two digits. Things of the
    two splits are apart. A scenario's metadata name its `kind` and the `gold` articles.

    Args:
        kinds: which there are, with commas between them. most: what is added at most. turns: replies per question.
        seed: of the numbers of things. sandbox: whether `python` is a program in the sandbox, of which each call takes
            a process; without, it is for expressions of integers.
    """

    def __init__(
        self, kinds: str = ",".join(KINDS), most: int = 2, turns: int = 5, seed: int = 0, sandbox: bool = False
    ) -> None:
        self.kinds = tuple(kind.strip() for kind in kinds.split(","))
        if unknown := [kind for kind in self.kinds if kind not in KINDS]:
            raise ConfigurationError(f"reckoning: kinds are {', '.join(KINDS)}, with commas, not {unknown[0]!r}")
        if most < 1 or turns < 1:
            raise ConfigurationError(f"reckoning: most and turns must be at least 1, not {most} and {turns}")
        self.name = f"reckoning?kinds={','.join(self.kinds)}&most={most}"
        self.most, self.turns, self.seed, self.sandbox = most, turns, seed, sandbox

    @cached_property
    def _search(self) -> Search:
        return Search(index_of(DIGITS, self.seed), top=1)

    @cached_property
    def workflow(self) -> Workflow:
        """A policy with both tools, which are not listed."""
        python: Tool = PythonTool() if self.sandbox else Expressions()
        return ToolUse((self._search, python), self.turns, listed=False)

    @cached_property
    def _things(self) -> Mapping[Split, Sequence[str]]:
        names = facts(DIGITS, self.seed).numbers
        return {split: [thing for thing in names if held(thing) is (split == "eval")] for split in ("train", "eval")}

    def size(self, split: Split) -> int | None:
        return len(self.kinds) * len(self._things[split])

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number, self.size(split))
        kind, thing = self.kinds[number % len(self.kinds)], self._things[split][number // len(self.kinds)]
        rng = Key.of(self.seed).derive("reckoning", kind, thing).numpy()
        known, added = int(facts(DIGITS, self.seed).numbers[thing]), int(rng.integers(1, self.most + 1))
        gold, question, answer = [thing], f"What is the number of the {thing}?", known
        if kind == "both":
            question, answer = f"What is {added} more than the number of the {thing}?", known + added
        elif kind == "neither":
            first, second = (int(term) for term in rng.integers(1, 10, 2))
            gold, question, answer = [], f"What is {first} + {second}?", first + second
        metadata = {"kind": kind, "gold": gold, "added": added}
        return Scenario(f"reckoning/{kind}/{split}/{number}", question, str(answer), metadata, seed=number)

    @property
    def lessons(self) -> Lessons:
        """How each tool is called, and answers that are often guessed."""
        return Lessons(
            "to search for a name and, more rarely, to add by Python, and sums in the head that are often guessed",
            100,
            self._lesson,
            then=lambda recipe: {**THEN, **(GENTLY if recipe.objective.compares_pairs else {})},
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        calls, answer = self._beginner(scenario, rng)

        def reply_to(heard: Sequence[Message]) -> str:
            done = sum(message["role"] == "tool" for message in heard)
            return calls[done] if done < len(calls) else f"<answer>{answer}</answer>"

        (lesson,) = called((self._search, Expressions()), scenario, reply_to, self.turns)
        return [Lesson(lesson.prompt, lesson.said)]

    def _beginner(self, scenario: Scenario, rng: np.random.Generator) -> tuple[list[str], int]:
        """The calls of a beginner, and its answer."""
        kind, added, right = scenario.metadata["kind"], scenario.metadata["added"], int(scenario.answer)
        guess, near = int(rng.integers(10, 100)), right + int(rng.integers(1, 10))
        if kind == "neither":
            return [], right
        if rng.random() >= SEARCHES:
            return [], guess
        calls = [call_of("search", query=scenario.metadata["gold"][0])]
        if kind == "search":
            return calls, right
        if rng.random() < PROGRAMS:
            return [*calls, call_of("python", code=f"{right - added}+{added}")], right
        return calls, right if rng.random() < SKILL else near

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 64}

    def verify(self, text: str, scenario: Scenario) -> float:
        answer = tagged(text)
        return float(answer is not None and equal(answer, str(scenario.answer)))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Success and calls by the kind of question; `both_tools`: right with both tools, where both are asked for."""
        kind, named = str(trajectory.scenario.metadata["kind"]), tools_of(trajectory)
        right = self.success(trajectory)
        figures = {kind: right, f"{kind}_calls": float(len(CALLS.get(trajectory, ())))}
        return {
            **super().describe(trajectory),
            **figures,
            **({"both_tools": right * (named >= {"search", "python"})} if kind == "both" else {}),
        }


DIGITS = 2
"""Of the number of a thing."""

SEARCHES, PROGRAMS, SKILL = 0.7, 0.4, 0.8
"""How often a beginner searches, adds by Python after that, and else adds rightly in the head."""

THEN = {"curriculum.prompts": 12, "steps": 30, "update.lr": 1e-3, "evaluation.n": 90}
"""Settings for training after the lessons."""

GENTLY = {"update.lr": 3e-4}
"""Pairs of answers undo in ten steps at 1e-3 what was learnt."""


def tools_of(trajectory: Trajectory) -> frozenset[str]:
    """The names of the tools that were called."""
    return frozenset(str(call["name"]) for call in CALLS.get(trajectory, ()))


def from_settings(name: str, settings: Mapping[str, str]) -> Reckoning:
    """The task with these settings."""
    return Reckoning(**checked(name, settings, {"kinds": str, "most": int, "turns": int, "seed": int, "sandbox": bool}))


RECKONING = TaskForm(
    name="reckoning",
    description="sums that take a search and a program, one of them or neither, e.g. reckoning?kinds=both,neither",
    make=from_settings,
)
