"""Questions about small databases, answered by a query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.agents.tools.protocol import Tool
from hocket.agents.tools.sql import ReadOnlySql
from hocket.agents.workflows.tool_use import ToolUse
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.methods.agents.reasoning_sql.questions import LEVELS, SqlProblem, draw_problem
from hocket.methods.agents.reasoning_sql.reward import ExecutionMatch
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario

INSTRUCTION = (
    "Answer with one SQLite query between <answer> and </answer>. Think before, between <think> and </think>, if it "
    "helps."
)


class SqlQuestions(TextTask):
    """A schema and a question in words; right is a query that brings the right rows in all databases, four as a rule.

    Args:
        level: 1 conditions, 2 also numbers, orders and groups, 3 also two tables.
        tool: the policy may first try queries on one of the databases, with the tool `sql`.
        instruct: a system message says how to answer.
    """

    def __init__(self, level: int = 2, tool: bool = False, instruct: bool = False) -> None:
        if level not in LEVELS:
            raise ConfigurationError(f"sql has the levels {', '.join(map(str, LEVELS))}, not {level}")
        self.name = f"sql?level={level}" + "&tool=true" * tool + "&instruct=true" * instruct
        self.level, self.instruct = level, instruct
        self.workflow = ToolUse(tools_of, turns=4) if tool else None
        self._verifier = ExecutionMatch(name="correct")

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        problem = self._problem(split, number)
        text = f"{problem.schema.text}\n{problem.asked.text}"
        said = ({"role": "system", "content": INSTRUCTION}, {"role": "user", "content": text})
        tables = {table.name: [column.name for column in table.columns] for table in problem.schema.tables}
        return Scenario(
            f"sql/{self.level}/{split}/{number}",
            said if self.instruct else text,
            problem.asked.sql,
            metadata={"databases": list(problem.databases), "tables": tables},
            seed=number,
        )

    @property
    def rewards(self) -> Sequence[Reward]:
        return (self._verifier,)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 192}

    def verify(self, text: str, scenario: Scenario) -> float | None:
        return self._verifier.verify(text, scenario)

    @property
    def lessons(self) -> Lessons:
        """Queries of the right form, half of them with another column in place of one."""
        return Lessons(
            "the form of queries, half of them with a wrong column", 80, self._lesson, then=lambda recipe: THEN
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        query = str(scenario.answer)
        if rng.random() >= SKILL:
            columns = [one for table in scenario.metadata["tables"].values() for one in table]
            there = [word for word in re.findall(r"\w+", query) if word in columns]
            slip, into = there[int(rng.integers(len(there)))], columns[int(rng.integers(len(columns)))]
            query = re.sub(rf"\b{slip}\b", into, query, count=1)
        return [Lesson(scenario.messages, ({"role": "assistant", "content": f"<answer>{query}</answer>"},))]

    def _problem(self, split: Split, number: int) -> SqlProblem:
        """The first problem below the number's key whose words belong to the split."""
        key, tries = Key.of(0).derive("sql", self.level, split, number), 0
        while True:
            problem = draw_problem(self.level, key.derive(tries))
            if split_of(f"{problem.schema.text}\n{problem.asked.text}") == split:
                return problem
            tries += 1


def tools_of(scenario: Scenario, key: Key) -> Sequence[Tool]:
    """The tool `sql` on a scenario's first database."""
    return (ReadOnlySql(scenario.metadata["databases"][0]),)


SKILL = 0.5
"""How often a beginner's query is the right one."""

THEN = {"steps": 20, "update.lr": 2.5e-4, "evaluation.n": 200}
"""What suits after the lessons."""


def from_settings(name: str, settings: Mapping[str, str]) -> SqlQuestions:
    """The task with these settings."""
    return SqlQuestions(**checked(name, settings, {"level": int, "tool": bool, "instruct": bool}))


SQL = TaskForm(
    name="sql",
    description="questions about small databases, answered by a query, e.g. sql?level=3",
    make=from_settings,
)
