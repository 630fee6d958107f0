"""Bugs in functions of the standard library, to be found and repaired with tools; their tests are the reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from hocket.agents.tools.bugs import Bug, SourceChange, all_bugs, changes
from hocket.agents.tools.sandbox import Sandbox
from hocket.agents.tools.workbench import BenchTool, Workbench
from hocket.agents.workflows.tool_use import ToolUse
from hocket.core.columns import CALLS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.rewards.module_repair import Repaired
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons, call_of, called
from hocket.tasks.text import TextTask, check_number
from hocket.types import Message, Scenario, Trajectory

SANDBOX = Sandbox()

SKILL = 0.4
"""How often a beginner's edit is the one that takes the bug back."""

THEN = {"steps": 30, "curriculum.prompts": 8, "update.lr": 2.5e-4, "evaluation.n": 30}
"""Settings for training after the lessons."""


@lru_cache(maxsize=4)
def bugs_by_split(longest: int) -> Mapping[Split, Sequence[Bug]]:
    """The bugs of functions of at most `longest` characters. Splits share functions, not bugs."""
    bugs = all_bugs(longest, SANDBOX)
    # In an order that is drawn, so that a step meets many functions; a quarter of them is kept for evaluation.
    order = Key.of(0).derive("repair").numpy().permutation(len(bugs)).tolist()
    held_out = len(bugs) // 4
    return {"train": [bugs[place] for place in order[held_out:]], "eval": [bugs[place] for place in order[:held_out]]}


class Repair(TextTask):
    """One operator or constant of an installed function is changed; the policy looks, edits and runs tests.

    Further tests, which its tools do not show, decide as well: what only answers the tests that it has seen is no
    repair.

    Args:
        longest: characters of the functions that are broken, as they are shown.
        turns: replies per episode. listed: whether the chat template lists the tools.
    """

    def __init__(self, longest: int = 160, turns: int = 6, listed: bool = False) -> None:
        if longest < 100 or turns < 1:
            raise ConfigurationError(
                f"task repair: longest is at least 100 characters and turns at least 1, not {longest} and {turns}"
            )
        self.name = f"repair?longest={longest}&turns={turns}" + "&listed=true" * listed
        self.longest, self.turns, self.listed = longest, turns, listed
        self._reward = Repaired(self.bench)

    @cached_property
    def workflow(self) -> ToolUse:
        """A policy with the tools of a scenario's workbench."""
        return ToolUse(self.tools_of, self.turns, listed=self.listed)

    def size(self, split: Split) -> int | None:
        return len(bugs_by_split(self.longest)[split])

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number, self.size(split))
        routine = bugs_by_split(self.longest)[split][number].original.routine
        prompt = f"{routine.name} in {routine.file} fails its tests. Mend it."
        metadata = {"split": split, "bug": number, "function": f"{routine.module}.{routine.name}"}
        return Scenario(f"{self.name}/{split}/{number}", prompt, metadata=metadata, seed=number)

    def bench(self, scenario: Scenario) -> Workbench:
        """The module of a scenario with its bug, untouched."""
        return Workbench(bugs_by_split(self.longest)[scenario.metadata["split"]][scenario.metadata["bug"]], SANDBOX)

    def tools_of(self, scenario: Scenario, key: Key) -> Sequence[BenchTool]:
        """The tools of one episode."""
        return self.bench(scenario).tools

    @property
    def rewards(self) -> Sequence[Reward]:
        return (self._reward,)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 110}

    @property
    def lessons(self) -> Lessons:
        """Reading and editing, where most edits are at a wrong place or of a wrong kind; given when asked for."""
        taught = f"how to read, test and edit, {1 - SKILL:.0%} of the edits being wrong ones"
        return Lessons(taught, 0, self._lesson, then=lambda recipe: THEN)

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        bench = self.bench(scenario)
        bug, made = bench.bug, list[str]()
        there = changes(bug.lines, bug.original.routine.name)
        change = bug.mending if rng.random() < SKILL else there[int(rng.integers(len(there)))]
        steps = ["test"] * bool(rng.random() < 0.3) + ["read", "edit", ""]

        def reply_to(heard: Sequence[Message]) -> str:
            made.append(steps[len(made)])
            if made[-1] == "edit":
                return call_of("edit", **edit_of(change, bug.lines[change.line - 1]))
            return call_of(made[-1]) if made[-1] else "Done."

        lesson = called(bench.tools, scenario, reply_to, len(steps))[0]
        return [lesson if self.listed else Lesson(lesson.prompt, lesson.said)]

    def verify(self, text: str, scenario: Scenario) -> float | None:
        """No opinion: what counts is the module, not the words about it."""
        return None

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`edited`: whether an edit could be made; `tested`: whether the tests were run."""
        calls = CALLS.get(trajectory, ())
        edited = any(call["name"] == "edit" and call["worked"] for call in calls)
        return {"edited": float(edited), "tested": float(any(call["name"] == "test" for call in calls))}

    def label(self, trajectory: Trajectory) -> str | None:
        """The edits that were made: attempts agree where these are the same."""
        edits = [call["arguments"] for call in CALLS.get(trajectory, ()) if call["name"] == "edit" and call["worked"]]
        return " ".join(f"{edit['line']} {edit['old']}>{edit['new']}" for edit in edits) or None

    def success(self, trajectory: Trajectory) -> float:
        """1 if all tests pass; taken from the score where the trajectory was graded."""
        score = trajectory.scores.get(self._reward.name)
        return self._reward.judge(trajectory) if score is None else float(score.value == 1.0)


def edit_of(change: SourceChange, text: str) -> dict[str, str]:
    """The arguments of the edit that makes a change: of `old` as few words as stand once on the line."""
    first, last = change.column, change.column + len(change.old)
    while text.count(text[first:last]) != 1:
        first = text.rfind(" ", 0, max(0, first - 1)) + 1
        after = text.find(" ", last + 1)
        last = after if after >= 0 else len(text)
    new = text[first : change.column] + change.new + text[change.column + len(change.old) : last]
    return {"line": str(change.line), "old": text[first:last], "new": new}


def from_settings(name: str, settings: Mapping[str, str]) -> Repair:
    """The task with these settings."""
    return Repair(**checked(name, settings, {"longest": int, "turns": int, "listed": bool}))


REPAIR = TaskForm(
    name="repair",
    description="bugs in functions of the standard library to find and repair with tools, e.g. repair?longest=160",
    family="words",
    make=from_settings,
)
