"""Questions about pictures that are read by tools, each of which is good at some kinds of picture and misled by others.

A picture is a record: what every tool would say of it. Who decides what is called knows the kind alone, so how often
the best choice is right, and any other, is known exactly (`Toolbox.accuracy`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from hocket.agents.workflows.workflow import with_line
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario
from hocket.zoo.tasks.referral import given

COLOURS = ("red", "blue", "green", "grey")
"""The answers."""

GOOD: Mapping[str, Mapping[str, float]] = {
    "chart": {"scan": 0.9},
    "map": {"trace": 0.9},
    "photo": {"count": 0.75, "match": 0.75, "read": 0.75},
}
"""Of each kind of picture the tools that are mostly right, and how often."""

TOOLS = ("scan", "trace", "count", "match", "read")


@dataclass(frozen=True)
class Toolbox:
    """How often each tool is right.

    Attributes:
        misled: how often a tool is right about pictures that it is no good at. A tool that is not right names another
            colour, of one picture always the same.
    """

    misled: float = 0.3

    def __post_init__(self) -> None:
        if not 0 < self.misled < 0.5:
            raise ConfigurationError(f"tool-choice: misled must lie in (0, 0.5), not {self.misled:g}")

    def right(self, kind: str, tool: str) -> float:
        """How often a tool is right about a kind of picture."""
        return GOOD[kind].get(tool, self.misled)

    def accuracy(self, kind: str, called: Sequence[str]) -> float:
        """How often `most_said` is right of these tools, called in this order; a guess where none is called."""
        if not called:
            return 1 / len(COLOURS)
        total = 0.0
        for said in itertools.product(("right", "other"), repeat=len(called)):
            if most_said(said) == "right":
                rates = [self.right(kind, tool) for tool in called]
                total += math.prod(rate if one == "right" else 1 - rate for rate, one in zip(rates, said, strict=True))
        return total

    def best(self, mix: Mapping[str, float]) -> tuple[tuple[str, ...], float]:
        """The one list for all pictures that is right most often, and how often, of kinds with these shares."""

        def worth(called: tuple[str, ...]) -> float:
            return sum(share * self.accuracy(kind, called) for kind, share in mix.items())

        found = max(lists(), key=worth)
        return found, worth(found)


@cache
def lists() -> tuple[tuple[str, ...], ...]:
    """Everything that can be called, in every order, nothing included."""
    return tuple(itertools.chain.from_iterable(itertools.permutations(TOOLS, size) for size in range(len(TOOLS) + 1)))


def most_said(said: Sequence[str]) -> str:
    """What most say; where several are said as often, what was said first."""
    return max(said, key=said.count)


class ToolChoice(TextTask):
    """Pictures without end; their words decide the split.

    A scenario's metadata say the `kind` and the `readings`: what each tool says.

    Args:
        toolbox: how good tools are. kinds: those that pictures are of, equally often.
    """

    def __init__(self, toolbox: Toolbox | None = None, kinds: Sequence[str] = tuple(GOOD)) -> None:
        if not kinds or not set(kinds) <= set(GOOD):
            raise ConfigurationError(f"tool-choice: kinds are some of {', '.join(GOOD)}, not {', '.join(kinds)!r}")
        self.toolbox, self.kinds = toolbox or Toolbox(), tuple(kinds)
        self.name = "tool-choice"

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        key, tries = Key.of(0).derive("tool_choice", split, number), 0
        while split_of(str((found := self._drawn(key.derive(tries), split, number)).prompt)) != split:
            tries += 1
        return found

    def _drawn(self, key: Key, split: Split, number: int) -> Scenario:
        rng = key.numpy()
        kind = self.kinds[int(rng.integers(len(self.kinds)))]
        answer, other = rng.choice(COLOURS, 2, replace=False).tolist()
        readings = {tool: answer if rng.random() < self.toolbox.right(kind, tool) else other for tool in TOOLS}
        prompt = f"Picture {int(rng.integers(1, 1000))}: {kind}. Which colour?"
        return Scenario(
            f"tool_choice/{split}/{number}", prompt, answer, {"kind": kind, "readings": readings}, seed=number
        )

    def verify(self, text: str, scenario: Scenario) -> float:
        return float(given(text) == scenario.answer)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 32}

    @property
    def lessons(self) -> Lessons:
        """The kind and tools, one to three, mostly by lot; and what most of them said."""
        return Lessons(
            "to repeat the kind and call one to three tools by lot, one time in four a good one first, and to answer "
            "what most of those called have said",
            100,
            self._lesson,
            talks=2,
            then=lambda recipe: {"steps": 60, "update.lr": 3e-4, "evaluation.n": 200},
            needed=True,
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
        called = rng.permutation(TOOLS)[: int(rng.integers(1, 4))].tolist()
        if rng.random() < SKILL:
            first = rng.permutation(list(GOOD[scenario.metadata["kind"]]))[0]
            called = [str(first), *(tool for tool in called if tool != first)][: len(called)]
        said = [scenario.metadata["readings"][tool] for tool in called]
        choice = Lesson(
            tuple(with_line(scenario.messages, which(TOOLS))), _says(f"{scenario.metadata['kind']}: {' '.join(called)}")
        )
        heard = tuple(with_line(scenario.messages, told(dict(zip(called, said, strict=True)))))
        return [choice, Lesson(heard, _says(most_said(said)))]


SKILL = 0.25
"""How often a beginner names a tool first that is good at the kind; else all are by lot."""


def which(tools: Sequence[str]) -> str:
    """What who chooses the tools is asked."""
    return f"Which of {', '.join(tools)}?"


def told(readings: Mapping[str, str]) -> str:
    """What who answers is told that the tools said."""
    if not readings:
        return "No tool was called."
    return ", ".join(f"{tool}: {said}" for tool, said in readings.items())


def _says(text: str) -> tuple[dict[str, str], ...]:
    return ({"role": "assistant", "content": text},)


def from_settings(name: str, settings: Mapping[str, str]) -> ToolChoice:
    """The task with these settings."""
    found = dict(checked(name, settings, {"misled": float, "kinds": str}))
    kinds = str(found.pop("kinds", ",".join(GOOD)))
    return ToolChoice(Toolbox(**found), [kind.strip() for kind in kinds.split(",")])


TOOL_CHOICE = TaskForm(
    name="tool-choice",
    description="questions for which tools must be chosen that do not mislead, e.g. tool-choice?kinds=chart,photo",
    make=from_settings,
    drawn_as="tool_choice",
)
