"""Questions that take several searches in a generated corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from hocket.agents.tools.corpus import Corpus, CorpusQuestion
from hocket.agents.tools.search import Index, Search
from hocket.agents.workflows.tool_use import ToolUse
from hocket.core.columns import CALLS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.options import checked
from hocket.rewards.verifiers import token_match
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons, call_of, called
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number, instructed
from hocket.types import Message, Scenario, Trajectory

Grade = Literal["exact", "f1"]


@lru_cache(maxsize=4)
def library(documents: int, seed: int, brief: bool) -> Corpus:
    """The corpus of a size and a seed."""
    return Corpus(documents, Key.of(seed), brief)


@lru_cache(maxsize=4)
def shelf(documents: int, seed: int, brief: bool) -> Index:
    """Its index. Sentences repeat what an article is about; where they are left out its title counts for more."""
    return Index(library(documents, seed, brief).documents, titles=3 if brief else 1)


class MultiHop(TextTask):
    """Questions of one number of hops over one corpus, each with one answer; their words decide the split.

    A scenario's metadata say the `gold` articles in the order in which they are needed, and the `entities` that a right
    chain of searches comes by, the answer last.

    Args:
        hops: articles that a question takes. documents: articles of the corpus. seed: of the corpus.
        top: articles per search; None is one where all is brief, else three.
        turns: replies per question; None is two more than hops.
        grade: `exact` (1 for the answer up to case and white space, else 0), or `f1` (of the words, for a wrong one).
        instruct: a system message asks for the answer's tags.
        brief: articles and questions have few words, and the chat template doesn't list the tool; lessons teach
            its use.
    """

    def __init__(
        self,
        hops: int = 2,
        documents: int = 200,
        top: int | None = None,
        turns: int | None = None,
        seed: int = 0,
        grade: Grade = "exact",
        instruct: bool = False,
        brief: bool = True,
    ) -> None:
        if grade not in ("exact", "f1"):
            raise ConfigurationError(f"multihop: grade is exact or f1, not {grade!r}")
        top = (1 if brief else 3) if top is None else top
        if hops < 1 or top < 1 or (turns is not None and turns < 1):
            raise ConfigurationError(f"multihop: hops = {hops}, top = {top} and turns = {turns} must be at least 1")
        self.name = f"multihop?hops={hops}&documents={documents}" + "&brief=false" * (not brief)
        self.hops, self.documents, self.top, self.seed = hops, documents, top, seed
        self.turns = hops + 2 if turns is None else turns
        self.grade, self.instruct, self.brief = grade, instruct, brief

    @property
    def corpus(self) -> Corpus:
        """Where the answers stand."""
        return library(self.documents, self.seed, self.brief)

    @cached_property
    def workflow(self) -> ToolUse:
        """A policy with a search tool."""
        search = Search(shelf(self.documents, self.seed, self.brief), self.top)
        return ToolUse((search,), self.turns, listed=not self.brief)

    @cached_property
    def _questions(self) -> Mapping[Split, list[CorpusQuestion]]:
        known = self.corpus.questions(self.hops)
        rng = Key.of(self.seed).derive("multihop", self.hops).numpy()
        shuffled = [known[place] for place in rng.permutation(len(known)).tolist()]
        questions: dict[Split, list[CorpusQuestion]] = {"train": [], "eval": []}
        for question in shuffled:
            split = split_of(question.text)
            if split != "pretrain":
                questions[split].append(question)
        return questions

    def size(self, split: Split) -> int | None:
        return len(self._questions[split])

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number, self.size(split))
        question = self._questions[split][number]
        return Scenario(
            f"multihop/{self.hops}/{split}/{number}",
            instructed(question.brief if self.brief else question.text, self.instruct),
            question.answer,
            metadata={"gold": list(question.gold), "entities": [*question.gold[1:], question.answer]},
            seed=number,
        )

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    @property
    def lessons(self) -> Lessons:
        """Searches for what comes next, and answers that are half of the time something else of what was found."""
        return Lessons(
            "searches for a name, and the form of an answer, half of them guessed",
            220 if self.brief else 0,
            self._lesson,
            schedule="cosine",
            then=lambda recipe: THEN,
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        names, right = scenario.metadata["gold"], str(scenario.answer)
        tools = self.workflow.tools_of
        assert isinstance(tools, tuple)

        def reply_to(heard: Sequence[Message]) -> str:
            searched = sum(message["role"] == "tool" for message in heard)
            if searched < len(names) and (not searched or rng.random() < SEARCHES):
                return call_of("search", query=names[searched])
            if searched == len(names) and rng.random() < SKILL:
                return f"<answer>{right}</answer>"
            first_line = str(heard[-1]["content"]).partition("\n")[0].partition(": ")[2]
            if self.brief:
                objects = [fact.partition(" ")[2] for fact in first_line.split(", ")]
            else:
                objects = [fact.rpartition(" ")[2] for fact in first_line.removesuffix(".").split(". ")]
            return f"<answer>{objects[int(rng.integers(len(objects)))]}</answer>"

        lessons = called(tools, scenario, reply_to, self.turns)
        return [replace(lesson, tools=()) for lesson in lessons] if self.brief else lessons

    def verify(self, text: str, scenario: Scenario) -> float | None:
        answer = tagged(text)
        if answer is None:
            return 0.0
        value = token_match(answer.casefold(), str(scenario.answer).casefold())
        return value if self.grade == "f1" or value == 1.0 else 0.0

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`searched`: whether it searched; `found`: the share of the gold articles that came up."""
        calls = CALLS.get(trajectory, ())
        shown = "\n".join(str(call["result"]) for call in calls)
        gold = trajectory.scenario.metadata.get("gold", ())
        came = sum(f"{title}: " in shown for title in gold)
        figures = {"searched": float(bool(calls)), "found": came / len(gold) if gold else 0.0}
        return {**super().describe(trajectory), **figures}


SEARCHES, SKILL = 0.8, 0.5
"""How often a beginner goes on to search, and how often its answer is read from what it found."""

THEN = {"steps": 40, "curriculum.prompts": 16, "rollout.samples": 16, "update.lr": 4e-4, "evaluation.n": 200}
"""Settings for training after the lessons."""

SETTINGS = {
    **dict.fromkeys(("hops", "documents", "top", "turns", "seed"), int),
    **dict.fromkeys(("instruct", "brief"), bool),
    "grade": str,
}


def from_settings(name: str, settings: Mapping[str, str]) -> MultiHop:
    """The task with these settings."""
    return MultiHop(**checked(name, settings, SETTINGS))


MULTIHOP = TaskForm(
    name="multihop",
    description="questions that take several searches in a generated corpus, e.g. multihop?hops=2",
    family="words",
    make=from_settings,
)
