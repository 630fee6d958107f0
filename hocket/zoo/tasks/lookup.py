"""Facts that stand in an index and nowhere else, and a search tool: small enough for the shipped model to learn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from hocket.agents.tools.corpus import Document
from hocket.agents.tools.search import Index, Search
from hocket.agents.workflows.inline_search import information
from hocket.agents.workflows.tool_use import ToolUse
from hocket.core.columns import CALLS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.options import checked
from hocket.rewards.verifiers import equal
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Message, Scenario, Trajectory

SHADES = ("red", "blue", "green", "white", "black", "golden", "little", "broken", "silent", "wild", "lost", "old")
THINGS = ("door", "tower", "garden", "river", "bridge", "lamp", "boat", "clock", "letter", "window", "orchard", "wheel")
OUTSIDE = frozenset({"tower", "garden", "river", "bridge", "boat", "orchard"})
HEADS = ("an", "ben", "cor", "dal", "el", "fin", "gil", "hal", "jo", "kar", "lin", "mar")
TAILS = ("a", "o", "na", "da", "ric", "win", "bert", "lia", "mund", "so", "ta", "vin")


@dataclass(frozen=True)
class Facts:
    """What is true: the number of each thing, and the thing that each person keeps, one of the same split."""

    numbers: Mapping[str, str]
    keeps: Mapping[str, str]

    @property
    def documents(self) -> list[Document]:
        """An article per name. Those of things are shorter, so that the words of a thing find its own first."""
        things = [Document(thing, f"number {number}") for thing, number in self.numbers.items()]
        return [*things, *(Document(person, f"keeps the {thing}") for person, thing in self.keeps.items())]


@lru_cache(maxsize=4)
def facts(digits: int, seed: int) -> Facts:
    """The facts, the same for the same seed."""
    rng = Key.of(seed).derive("lookup", digits).numpy()
    things = [f"{shade} {thing}" for shade in SHADES for thing in THINGS]
    numbers = dict(zip(things, map(str, rng.integers(10 ** (digits - 1), 10**digits, len(things))), strict=True))
    people, near = [head + tail for head in HEADS for tail in TAILS], dict[bool, list[str]]()
    for thing in things:
        near.setdefault(held(thing), []).append(thing)
    return Facts(numbers, {person: near[held(person)][int(rng.integers(len(near[held(person)])))] for person in people})


def held(name: str) -> bool:
    """Whether questions about a thing or a person are kept for evaluation."""
    return split_of(name) == "eval"


@lru_cache(maxsize=4)
def index_of(digits: int, seed: int) -> Index:
    """What is searched."""
    return Index(facts(digits, seed).documents)


CALLS_TAUGHT = 0.5
"""The share of lessons that search."""


def base_of(name: str) -> str:
    """Which of three bases holds the article of a person or a thing: `people`, `outside` or `inside`."""
    kind = name.split()[-1]
    return "people" if " " not in name else "outside" if kind in OUTSIDE else "inside"


@lru_cache(maxsize=4)
def bases_of(digits: int, seed: int) -> Mapping[str, Index]:
    """The articles in three bases, each with a search of its own."""
    bases: dict[str, list[Document]] = {"people": [], "outside": [], "inside": []}
    for document in facts(digits, seed).documents:
        bases[base_of(document.title)].append(document)
    return {name: Index(documents) for name, documents in bases.items()}


class Lookup(TextTask):
    """The number of a thing, or of what a person keeps; both stand only where a search finds them.

    Numbers are drawn, so without a search an answer is right once in `9 * 10**(digits - 1)` times. What belongs to the
    two splits is apart. A scenario's metadata name the `gold` articles in the order in which they are needed, and the
    `entities` that a right chain of searches comes by, the answer last.

    Args:
        hops: articles that a question takes, 1 or 2. digits: of a number. top: articles per search.
        turns: replies per question; None is two more than hops. seed: of the facts.
        calls: the share of demonstrations (for a first phase of `sft`) that search; the others guess at once.
        listed: whether the chat template lists the tool.
        tags: whether demonstrations search within one response, as `search-within` does, and not by calls of the tool.
        bases: 1, or 3 bases with a search of their own (see `base_of`), of which each article stands in one.
        routed: with 3 bases, the share of searches in demonstrations that ask the right base at first; the others ask
            the bases in an order that is drawn until something is found.
    """

    def __init__(
        self,
        hops: int = 1,
        digits: int = 2,
        top: int = 1,
        turns: int | None = None,
        seed: int = 0,
        calls: float = 1.0,
        listed: bool = False,
        tags: bool = False,
        bases: int = 1,
        routed: float = 1.0,
    ) -> None:
        if hops not in (1, 2) or top < 1 or (turns is not None and turns < 1):
            raise ConfigurationError(
                f"lookup: hops is 1 or 2, top and turns are at least 1, not {hops}, {top} and {turns}"
            )
        if not 1 <= digits <= 6:
            raise ConfigurationError(f"lookup: digits must lie between 1 and 6, not {digits}")
        if not 0 <= calls <= 1 or not 0 <= routed <= 1:
            raise ConfigurationError(f"lookup: calls and routed are each a share in [0, 1], not {calls} and {routed}")
        if bases not in (1, 3) or (bases == 3 and tags):
            raise ConfigurationError(f"lookup: bases is 1, or 3 without tags, not {bases}")
        self.name = f"lookup?hops={hops}&digits={digits}" + (f"&bases={bases}" if bases > 1 else "")
        self.hops, self.digits, self.top, self.seed = hops, digits, top, seed
        self.turns = hops * bases + 2 if turns is None else turns
        self.bases, self.routed = bases, routed
        self.calls, self.listed, self.tags = calls, listed, tags

    @property
    def facts(self) -> Facts:
        """Everything that is true."""
        return facts(self.digits, self.seed)

    @cached_property
    def search(self) -> Search:
        """The tool."""
        return Search(index_of(self.digits, self.seed), self.top)

    @cached_property
    def searches(self) -> Mapping[str, Search]:
        """The tools by name."""
        if self.bases == 1:
            return {self.search.name: self.search}
        bases = bases_of(self.digits, self.seed)
        return {name: Search(index, self.top, name=name) for name, index in bases.items()}

    @cached_property
    def workflow(self) -> ToolUse:
        """A policy with what it may search."""
        return ToolUse(tuple(self.searches.values()), self.turns, listed=self.listed)

    @cached_property
    def _asked(self) -> Mapping[Split, Sequence[str]]:
        names: dict[Split, list[str]] = {"train": [], "eval": []}
        for name in self.facts.numbers if self.hops == 1 else self.facts.keeps:
            names["eval" if held(name) else "train"].append(name)
        return names

    def size(self, split: Split) -> int | None:
        return len(self._asked[split])

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number, self.size(split))
        name = self._asked[split][number]
        gold = [name] if self.hops == 1 else [name, self.facts.keeps[name]]
        subject = f"the {name}" if self.hops == 1 else f"what {name} keeps"
        answer = self.facts.numbers[gold[-1]]
        rng = Key.of(self.seed).derive("lookup", "guess", split, number).numpy()
        guess = str(rng.integers(10 ** (self.digits - 1), 10**self.digits))
        shown = self._searched(gold, answer, rng) if rng.random() < self.calls else f"<answer>{guess}</answer>"
        metadata = {"gold": gold, "entities": [*gold[1:], answer], "demonstration": shown}
        return Scenario(
            f"lookup/{self.hops}/{split}/{number}", f"What is the number of {subject}?", answer, metadata, seed=number
        )

    def _asked_bases(self, name: str, rng: np.random.Generator, routed: float) -> list[str]:
        """The bases that are asked for an article, the one that has it last."""
        if self.bases == 1:
            return list(self.searches)
        order = list(self.searches) if rng.random() >= routed else [base_of(name)]
        order = [order[place] for place in rng.permutation(len(order)).tolist()]
        return order[: order.index(base_of(name)) + 1]

    def _searched(
        self, gold: Sequence[str], answer: str, rng: np.random.Generator, routed: float | None = None
    ) -> str | list[Message]:
        """What somebody says who searches for what is needed and then answers."""
        if self.tags:
            pairs = "".join(f"<search>{name}</search>{information(self.search.answer(name))}" for name in gold)
            return f"{pairs}<answer>{answer}</answer>"
        messages: list[Message] = []
        share = self.routed if routed is None else routed
        queries = [(name, base) for name in gold for base in self._asked_bases(name, rng, share)]
        for query, base in queries:
            call = json.dumps({"name": base, "arguments": {"query": query}})
            messages.append({"role": "assistant", "content": f"<tool_call>{call}</tool_call>"})
            messages.append({"role": "tool", "content": self.searches[base].answer(query)})
        return [*messages, {"role": "assistant", "content": f"<answer>{answer}</answer>"}]

    @property
    def lessons(self) -> Lessons:
        """Half of them search for what is needed, the others guess at once."""
        return Lessons(
            "how to search, and answers that are guessed instead, half of each",
            40,
            self._lesson,
            then=lambda recipe: {"curriculum.prompts": 8, "steps": 30},
            needed=True,
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        guess = f"<answer>{rng.integers(10 ** (self.digits - 1), 10**self.digits)}</answer>"
        gold, right = scenario.metadata["gold"], str(scenario.answer)
        reply = self._searched(gold, right, rng, routed=0.0) if rng.random() < CALLS_TAUGHT else guess
        messages = reply if not isinstance(reply, str) else [{"role": "assistant", "content": reply}]
        shown = tuple(tool.schema for tool in self.searches.values()) if self.listed else ()
        return [Lesson(scenario.messages, tuple(messages), shown)]

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 80}

    def verify(self, text: str, scenario: Scenario) -> float:
        answer = tagged(text)
        return float(answer is not None and equal(answer, str(scenario.answer)))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`searched`: whether it searched; `found`: the share of the gold articles that came up."""
        return {**super().describe(trajectory), **found_by(trajectory)}


def found_by(trajectory: Trajectory) -> dict[str, float]:
    """Whether an attempt searched, and which share of the articles it needed came up."""
    calls = CALLS.get(trajectory, ())
    shown = "\n".join(str(call["result"]) for call in calls)
    gold = trajectory.scenario.metadata.get("gold", ())
    came = sum(f"{title}: " in shown for title in gold)
    return {"searched": float(bool(calls)), "found": came / len(gold) if gold else 0.0}


def from_settings(name: str, settings: Mapping[str, str]) -> Lookup:
    """The task with these settings."""
    known = {"hops": int, "digits": int, "top": int, "turns": int, "seed": int, "calls": float, "listed": bool}
    return Lookup(**checked(name, settings, {**known, "tags": bool, "bases": int, "routed": float}))


LOOKUP = TaskForm(
    name="lookup",
    description="facts that only a search finds, for the shipped model after lessons, e.g. lookup?hops=1&calls=0.5",
    family="words",
    make=from_settings,
)
