"""SEM: GRPO that learns to search only when the first guess is wrong (Sha, Cui and Wang, arXiv:2505.07903).

`SearchTable` pays by three facts, whether the guess was right, whether there was a search, and whether the final answer
is right; its numbers follow the paper's order and are chosen here. `guess-then-search` is its template as turns, and
`known-or-sought` a task of it: sums that the shipped base knows beside products that it does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hocket.agents.tools import find_all
from hocket.agents.tools.calculator import Calculator, calculator
from hocket.agents.tools.protocol import Tool
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.tool_loop import converse
from hocket.agents.workflows.tool_use import ToolsOf, tools_for
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.columns import CALLS, TOOL_CALLS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import ANSWER, TOOL_CALL
from hocket.core.options import checked
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.rewards.opinions import Opinions
from hocket.rewards.verifiers import matches
from hocket.stages import Reward, Split
from hocket.tasks.arithmetic import draw_terms, expression_of, question_of, verify, working
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons, call_of, called
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Message, Scenario, Trajectory

_SEARCH = re.compile(r"<search>|" + re.escape(TOOL_CALL))


@dataclass(frozen=True)
class SearchTable(Reward):
    """What guessing, searching and answering earn together: SEM (arXiv 2505.07903).

    A response answers, may then search, and answers again: `<answer>..</answer>`, a `<search>` or `<tool_call>`, and a
    last `<answer>..</answer>`; all turns' texts count. The answer before the search is the guess. The paper orders the
    cases in words; the numbers are chosen here. What breaks the form earns `malformed`.

    Attributes:
        direct: right without a search. missed: wrong without one.
        found, tried: right or wrong after a search that a wrong guess called for.
        needless, spoiled: right or wrong after a search although the guess was right.

    Raises:
        ValueError: unless `direct > found > needless > tried >= missed > spoiled`.
    """

    direct: float = 1.0
    found: float = 0.8
    needless: float = 0.3
    tried: float = 0.1
    missed: float = 0.0
    spoiled: float = -0.2
    malformed: float = 0.0
    name: str = "search"
    weight: float = 1.0

    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.direct > self.found > self.needless > self.tried >= self.missed > self.spoiled:
            raise ValueError("the table must satisfy direct > found > needless > tried >= missed > spoiled")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.judge(trajectory) for trajectory in trajectories)

    def judge(self, trajectory: Trajectory) -> float | None:
        """The table's entry for one attempt; None where the scenario has no answer."""
        answer = trajectory.scenario.answer
        if answer is None:
            return None
        guess, searched, final = parts_of("".join(turn.text for turn in trajectory.turns))
        if final is None or (searched and guess is None):
            return self.malformed
        return self.entry(guess is not None and matches(guess, answer), searched, matches(final, answer))

    def entry(self, guessed: bool, searched: bool, solved: bool) -> float:
        """The table itself: was the guess right, was there a search, is the final answer right?"""
        if not searched:
            return self.direct if solved else self.missed
        if guessed:
            return self.needless if solved else self.spoiled
        return self.found if solved else self.tried


def parts_of(text: str) -> tuple[str | None, bool, str | None]:
    """The guess before the first search (None without one), whether there was a search, and the final answer."""
    search = _SEARCH.search(text)
    after = ANSWER.findall(text[search.end() :] if search else text)
    before = ANSWER.findall(text[: search.start()]) if search else after
    return (before[-1] if before else None), search is not None, (after[-1] if after else None)


@dataclass(frozen=True)
class GuessThenSearch(Workflow):
    """SEM's template as turns (arXiv 2505.07903): a guess from memory, a search or none, the final answer.

    The question is first asked without any tool. Then it is asked again under the guess, with the tools listed: a reply
    without a call is the final answer; with one, the next reply is.

    Attributes:
        tools_of: what is searched with: tools, names of tools with commas between them, or what makes those of one
            episode. None is those of the task, or the calculator where it has none.
    """

    name = "guess-then-search"
    description = "a guess from memory, then a search or none, then the answer"

    tools_of: ToolsOf | str | None = None

    roles = ("policy",)

    def __post_init__(self) -> None:
        if isinstance(self.tools_of, str):
            object.__setattr__(self, "tools_of", find_all(self.tools_of))

    def equipped(self, tools: ToolsOf) -> GuessThenSearch:
        return self if self.tools_of is not None else replace(self, tools_of=tools)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        if isinstance(self.tools_of, str):
            raise ConfigurationError("guess-then-search: tools_of was not found")
        given = find_all("calculator") if self.tools_of is None else self.tools_of
        tools: Sequence[Tool] = tools_for(given, scenario, team.key)
        told = asked(team.assignment)
        guess = await team.policy(told, prefix=team.assignment.prefix)
        searcher = team.policy.fresh(tools=[tool.schema for tool in tools])
        again = (*told, {"role": "assistant", "content": guess.text}, told[-1])
        reply, made = await converse(searcher, again, tools, turns=2)
        info = {TOOL_CALLS.name: len(made), CALLS.name: [one.plain for one in made]}
        return Outcome(answer=reply.text, info=info)


LESSONS = 60
"""Supervised steps after which the shipped model keeps to the template; before, it hardly searches after a guess."""

THEN = {"steps": 40, "curriculum.prompts": 8, "update.lr": 2.5e-4, "evaluation.n": 100}
"""Settings for training after the lessons."""


class KnownOrSought(TextTask):
    """Half sums that the shipped base can do itself, half products plus a number, for which it needs the calculator.

    As SEM's data are half questions that the model can answer and half that need retrieval; the calculator stands where
    a search engine does.
    """

    name: str = "known-or-sought"

    @property
    def workflow(self) -> Workflow:
        return GuessThenSearch()

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive(self.name, split, number).numpy()
        known = bool(rng.random() < 0.5)
        while True:
            terms = draw_terms(rng) if known else [int(size) for size in rng.integers(10, 100, size=3)]
            expression = expression_of(terms) if known else "{} * {} + {}".format(*terms)
            question = question_of(expression)
            if (split_of(question) == "eval") == (split == "eval"):
                metadata = {"known": known, "expression": expression, "thought": working(terms) if known else ""}
                answer = calculator(expression)
                return Scenario(f"{self.name}/{split}/{number}", question, answer, metadata=metadata, seed=number)

    @property
    def lessons(self) -> Lessons:
        """The template: a guess, for sums now and then thought out, after which three in four do not search."""
        taught = "a guess, and then a search or none, a search more often where nothing was thought"
        return Lessons(taught, LESSONS, self._lesson, talks=2, then=lambda recipe: THEN, needed=True)

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        guess, thought = str(rng.integers(10, 10_000)), ""
        if scenario.metadata["known"] and rng.random() < 0.5:
            guess, thought = str(scenario.answer), f"<think>{scenario.metadata['thought']}</think>"
        searches = rng.random() < (0.25 if thought else 0.75)
        guessed: Message = {"role": "assistant", "content": f"{thought}<answer>{guess}</answer>"}

        def reply_to(heard: Sequence[Message]) -> str:
            if heard[-1]["role"] == "tool":
                return f"<answer>{heard[-1]['content']}</answer>"
            if searches:
                return call_of(Calculator.name, expression=str(scenario.metadata["expression"]))
            return f"<answer>{guess}</answer>"

        again = replace(scenario, prompt=(*scenario.messages, guessed, scenario.messages[-1]))
        return [Lesson(scenario.messages, (guessed,)), *called((Calculator(),), again, reply_to, 2)]

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    def verify(self, text: str, scenario: Scenario) -> float:
        return verify(text, scenario.answer)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`searched`: whether a tool was called; `needed`: whether the guess was wrong."""
        guess, searched, _ = parts_of("".join(turn.text for turn in trajectory.turns))
        needed = guess is None or not matches(guess, trajectory.scenario.answer)
        return {**super().describe(trajectory), "searched": float(searched), "needed": float(needed)}


def from_settings(name: str, settings: Mapping[str, str]) -> KnownOrSought:
    """The task, which has no settings."""
    checked(name, settings, {})
    return KnownOrSought()


KNOWN_OR_SOUGHT = TaskForm(
    name="known-or-sought",
    description="sums that the shipped base knows and products to be looked up, a guess first",
    make=from_settings,
)


SEM = GRPO.but(
    name="sem",
    title="Search only when needed",
    source="Sha, Cui and Wang, SEM, arXiv:2505.07903",
    catalogue_ids=("sem",),
    axes=("reward", "data", "policy"),
    formula=GRPO.formula + " with R_i from a table of guess, search and final answer",
    conventions={
        **GRPO.conventions,
        "table": "1 right at once, 0.8 found by a search that was needed, 0.3 right after a needless one, 0.1 wrong "
        "after a needed one, 0 wrong at once, -0.2 spoiled by a needless one; the paper gives the order in words",
        "guess": "the answer given before the first search, in the shipped task a turn of its own (guess-then-search)",
        "search": "<search> or a tool call; in the shipped task the calculator stands for the search engine",
        "malformed": "0: no final answer, or a search before any guess",
    },
    task="known-or-sought",
    requires=(Requirement.TOOLS,),
    rewards=(SearchTable(),),
)
