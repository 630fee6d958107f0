"""Rank-R1: a reranker that thinks before it picks the best of a set (Zhuang et al., arXiv:2503.06034).

The prompt shows a query and candidates with labels, the model thinks and answers with one label, and GRPO pays 1 where
the form is `<think>..</think> <answer>[label]</answer>` and the label is that of the relevant candidate, else 0
(`ThoughtfulPick`, as the authors' code has it). A longer list is put in order by such picks inside a sort: a heap whose
nodes have several children (`heap_sorted`), or bubbles that rise through a window (`bubble_sorted`); the workflow
`setwise` plays them.

`rerank` is a task of it, small enough for the shipped base: a document is a sum, which implies a number, and the query
asks for the number. The paper trains on MS MARCO with twenty passages to a prompt, and no thought is ever shown to its
model; the shipped base is shown the form of one in lessons.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.options import checked
from hocket.methods.base.grpo import GRPO
from hocket.rewards.opinions import Opinions
from hocket.stages import Reward, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

# ---------------------------------------------------------------- the reward

_FORM = re.compile(r"<think>.*?</think>\s*<answer>(.*?)</answer>", re.DOTALL)
_LABEL = re.compile(r"\[?(\d+)\]?")


@dataclass(frozen=True)
class ThoughtfulPick(Reward):
    """1 for the relevant label in the answer after a thought, else 0; None where a scenario has no answer.

    Attributes:
        thought: whether the thought is needed; without, the answer's tags suffice.
    """

    thought: bool = True
    name: str = "pick"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.judge(one.answer, one.scenario) for one in trajectories)

    def judge(self, text: str, scenario: Scenario) -> float | None:
        """The verdict on one answer."""
        if scenario.answer is None:
            return None
        found = _FORM.search(text)
        given = (found[1] if found else None) if self.thought else tagged(text)
        return float(given is not None and given.strip() == str(scenario.answer))


# ---------------------------------------------------------------- setwise sorts

Choose = Callable[[Sequence[int]], Awaitable[int]]
"""Of documents, by their places, which is the best: its position in what was given."""

Sort = Literal["heap", "bubble"]


async def heap_sorted(choose: Choose, count: int, top: int, children: int) -> list[int]:
    """The places of `count` documents, the best `top` first and in order, the others as they came.

    A heap with so many children to a node is built from its last parent to its root, and its root taken `top` times; a
    choice is among a node and its children.
    """
    heap = list(range(count))

    async def sift(node: int, size: int) -> None:
        while node * children + 1 < size:
            family = [node, *range(node * children + 1, min(node * children + 1 + children, size))]
            best = family[await choose([heap[one] for one in family])]
            if best == node:
                return
            heap[node], heap[best] = heap[best], heap[node]
            node = best

    for node in range((count - 2) // children, -1, -1):
        await sift(node, count)
    taken: list[int] = []
    for size in range(count - 1, max(count - 1 - top, -1), -1):
        taken.append(heap[0])
        heap[0] = heap[size]
        if len(taken) < top:
            await sift(0, size)
    return [*taken, *(place for place in range(count) if place not in taken)]


async def bubble_sorted(choose: Choose, count: int, top: int, children: int) -> list[int]:
    """The same by bubbles: a window of `children + 1` moves from the end to the front, its best comes to its front.

    The `top` best take `sum_i ceil((count - 1 - i) / children)` choices.
    """
    order = list(range(count))
    for first in range(min(top, count - 1)):
        start = max(count - 1 - children, first)
        while True:
            window = order[start : start + children + 1]
            best = start + await choose(window)
            order[start], order[best] = order[best], order[start]
            if start == first:
                break
            start = max(start - children, first)
    return [*order[:top], *sorted(order[top:])]


SORTS: Mapping[Sort, Callable[[Choose, int, int, int], Awaitable[list[int]]]] = {
    "heap": heap_sorted,
    "bubble": bubble_sorted,
}


def ndcg(order: Sequence[int], relevance: Sequence[float], most: int = 10) -> float:
    """Normalised discounted cumulative gain of the first `most`, gains being `2^r - 1`; 0 where nothing is relevant."""

    def gained(grades: Sequence[float]) -> float:
        return math.fsum((2**grade - 1) / math.log2(place + 2) for place, grade in enumerate(grades[:most]))

    ideal = gained(sorted(relevance, reverse=True))
    return gained([relevance[place] for place in order]) / ideal if ideal else 0.0


@dataclass(frozen=True)
class Setwise(Workflow):
    """The documents of a scenario in order: the policy picks the best of a few until the best `top` are known.

    A scenario's metadata have `documents` and `query`. An answer that names no label picks the first. `Outcome.answer`
    is the order, as `3 > 1 > 2`, counted from 1.

    Attributes:
        children: one less than are chosen among. top: how many are put in order. sort: `heap` or `bubble`.
    """

    name = "setwise"
    description = "a list put in order by picks of the best of a few (Rank-R1)"

    children: int = 3
    top: int = 10
    sort: str = "heap"

    roles = ("policy",)

    def __post_init__(self) -> None:
        if self.children < 1 or self.top < 1 or self.sort not in SORTS:
            raise ConfigurationError(
                f"workflow setwise: children = {self.children} and top = {self.top} must be at least 1, and sort = "
                f"{self.sort!r} heap or bubble"
            )

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        told = scenario.metadata
        if not all(name in told for name in ("documents", "query")):
            raise ConfigurationError("workflow setwise puts documents in order; choose --task 'rerank?documents=10'")

        async def choose(places: Sequence[int]) -> int:
            here = [told["documents"][place] for place in places]
            reply = await team.policy.fresh()(asked_of(told["query"], here))
            given = _LABEL.fullmatch((tagged(reply.text) or "").strip())
            return int(given[1]) - 1 if given and 0 < int(given[1]) <= len(here) else 0

        count = len(told["documents"])
        order = await SORTS[self.sort](choose, count, min(self.top, count), self.children)  # type: ignore[index]
        return Outcome(answer=" > ".join(str(place + 1) for place in order))


# ---------------------------------------------------------------- a task

MOST = 20
"""Documents of a scenario."""


def asked_of(query: str, documents: Sequence[str]) -> str:
    """The prompt: the documents with their labels, and the query."""
    return "\n".join(f"[{place}] {one}" for place, one in enumerate(documents, 1)) + f"\nQuery: {query}"


class Rerank(TextTask):
    """Which of a few sums comes to what is asked for. Those that evaluation shows are never shown in training.

    Args:
        documents: how many. More than `window` are put in order by the workflow `setwise`, and the answer is right
            where the relevant one comes first; `ndcg` is told besides. window: documents in a prompt.
        thought: the share of lessons that think before they answer.
    """

    def __init__(self, documents: int = 4, window: int = 4, thought: float = 1.0) -> None:
        if not 2 <= window <= MOST or not 2 <= documents <= MOST:
            raise ConfigurationError(f"task rerank: documents = {documents} and window = {window} must be 2 to {MOST}")
        if not 0 <= thought <= 1:
            raise ConfigurationError(f"task rerank: thought = {thought} is a share; give a number from 0 to 1")
        self.name = f"rerank?documents={documents}&window={window}" + f"&thought={thought:g}" * (thought < 1)
        self.documents, self.window, self.thought = documents, window, thought

    @property
    def workflow(self) -> Workflow | None:
        """A sort where the documents do not fit into one prompt."""
        return Setwise(self.window - 1) if self.documents > self.window else None

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("rerank", self.documents, split, number).numpy()
        sums: dict[int, str] = {}
        while len(sums) < self.documents:
            first, second = int(rng.integers(10, 90)), int(rng.integers(2, 10))
            written = f"{first}+{second}"
            if first + second not in sums and (split_of(written) == "eval") == (split == "eval"):
                sums[first + second] = written
        place = int(rng.integers(self.documents))
        values = list(sums)
        metadata: dict[str, Any] = {"query": str(values[place]), "documents": list(sums.values()), "relevant": place}
        answer = f"[{place + 1}]" if self.workflow is None else str(place + 1)
        prompt = asked_of(metadata["query"], metadata["documents"])
        return Scenario(f"{self.name}/{split}/{number}", prompt, answer, metadata, seed=number)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 96}

    @property
    def lessons(self) -> Lessons | None:
        """Forms, and a beginner's haste: half of the time any one sum is worked out, and its label said."""
        if self.workflow is not None:
            return None
        form = "the form of a thought and an answer" if self.thought else "the form of an answer"
        taught = f"{form}, {1 - SKILL:.0%} of them hasty, for any document"
        return Lessons(taught, 80, self._lesson, then=lambda recipe: THEN)

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        documents, place = scenario.metadata["documents"], scenario.metadata["relevant"]
        first = 0
        if rng.random() >= SKILL:
            first = place = int(rng.integers(len(documents)))
        query = scenario.metadata["query"]
        steps = [f"[{at + 1}] {worked(documents[at], query)}" for at in range(first, place + 1)]
        thought = f"<think>{' '.join(steps)}</think>" if rng.random() < self.thought else ""
        said = f"{thought}<answer>[{place + 1}]</answer>"
        return [Lesson(scenario.messages, ({"role": "assistant", "content": said},))]

    def verify(self, text: str, scenario: Scenario) -> float:
        if self.workflow is not None:
            return float(text.partition(" > ")[0] == str(scenario.answer))
        return ThoughtfulPick(thought=False).judge(text, scenario) or 0.0

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`ndcg`: of the first ten, where a list was put in order."""
        if self.workflow is None:
            return super().describe(trajectory)
        order = [int(one) - 1 for one in trajectory.answer.split(" > ")] if trajectory.answer else []
        relevance = [float(place == trajectory.scenario.metadata["relevant"]) for place in range(self.documents)]
        return {"ndcg": ndcg(order, relevance)}


def worked(document: str, query: str) -> str:
    """A sum, what it comes to, and how far that is from what is asked for."""
    value = sum(map(int, document.split("+")))
    return f"{document}={value}-{query}={value - int(query)}"


SKILL = 0.5
"""How often a beginner works out sum after sum until one is what is asked for."""

THEN = {"steps": 40, "curriculum.prompts": 8, "update.lr": 2.5e-4, "evaluation.n": 100}
"""What suits after the lessons."""


def from_settings(name: str, settings: Mapping[str, str]) -> Rerank:
    """The task with these settings."""
    return Rerank(**checked(name, settings, {"documents": int, "window": int, "thought": float}))


RERANK = TaskForm(
    name="rerank",
    description="which of a few sums comes to what is asked for; rerank?documents=10 puts a longer list in order",
    make=from_settings,
)


RANK_R1 = GRPO.but(
    name="rank-r1",
    title="Rank-R1: setwise reranking with a thought",
    source="Zhuang et al., Rank-R1, arXiv:2503.06034",
    family="agents",
    catalogue_ids=("rank-r1",),
    axes=("reward", "environment"),
    formula=GRPO.formula + " with R_i = 1 if the form is <think>..</think> <answer>label</answer> and the label is the "
    "relevant document's, else 0",
    conventions={
        **GRPO.conventions,
        "form": "a thought, then the answer's tags, anywhere in the response, as in the authors' code; the label with "
        "its brackets, white space around it aside",
        "documents": "the relevant one and others, drawn; the paper: a passage judged relevant and 19 of BM25's",
        "KL": "none; the authors' script keeps that of TRL's GRPO, 0.04 by its default then",
        "sort": "heap of four, or bubbles; an answer without a label picks the first",
    },
    task="rerank",
    rewards=(ThoughtfulPick(),),
)
