"""Reflective memory management: memories by topic, and a reranker that learns from citations (arXiv:2503.08026).

Prospective: when a session has ended the reflecting model says what is worth remembering of it, a memory a topic, and
each is added to the bank or merged with one that is near (`prospect`). Retrospective: of the N memories that BM25 finds
for a question a light reranker draws K by the Gumbel trick, the target answers with these before it and cites those it
used, a cited one counts +1 and another one -1, and REINFORCE moves the reranker at once: `dphi = eta (R - b) grad log
P_phi(M_K | q, M_N)` (`Reranker`). The target's weights never change, and nobody says which memory was right.

Formula and rewards are the paper's, as recalled in the catalogue. Ours: question and memory are hashed words, to which
a linear map of itself is added, `q' = q + W_q q`; P is of the set, exactly (`hocket.core.subsets`); R is the mean over
the K, so it says how many were cited and not which; b is the mean of R so far; an answer that cites nothing cites the
memories in which its words stand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hocket.agents.search.searcher import CaseResult, SearchBench, Searcher, SearchMethod, Trial, check_wording
from hocket.agents.tools.recall import candidates, scores, vectors
from hocket.agents.tools.search import words
from hocket.core import subsets
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.texts import Recall, Texts

Numbers = NDArray[np.float64]

EXTRACT = """A session with a user has ended.

{session}

What of it is worth remembering? One short memory for each topic, a line each; nothing where there is none."""

MERGE = """A new memory: {memory}

Memories that are near to it:
{near}

Write `ADD` where it says something new, or `MERGE 2: ..` with the two in one where memory 2 is about the same."""

_MERGE = re.compile(r"^\W*MERGE\s*\[?(\d+)\]?\s*:[ \t]*(\S.*)$", re.M | re.I)
_CITED = re.compile(r"\[(\d+(?:\s*,\s*\d+)*)\]")


# ---------------------------------------------------------------- the reranker


@dataclass(frozen=True)
class Reranker:
    """`s_i = (q + W_q q)^T (m_i + W_m m_i) / temperature`; sets of K are drawn in proportion to `exp s` one by one.

    Attributes:
        query, memory: W_q and W_m, `[D, D]`.
    """

    query: Numbers
    memory: Numbers
    temperature: float

    @staticmethod
    def new(buckets: int, temperature: float) -> Reranker:
        """The retriever's own nearness."""
        return Reranker(np.zeros((buckets, buckets)), np.zeros((buckets, buckets)), temperature)

    def scores(self, question: Numbers, memories: Numbers) -> Numbers:
        """Of memories `[N, D]` for a question `[D]`, `[N]`."""
        found = (memories + memories @ self.memory.T) @ (question + self.query @ question)
        return np.asarray(found / self.temperature, np.float64)

    def moved(self, question: Numbers, memories: Numbers, chosen: Sequence[int], by: float) -> Reranker:
        """After a step of `by` along the gradient of the log-probability that `chosen` were drawn."""
        slope = subsets.gradient(self.scores(question, memories), chosen) / self.temperature
        told = slope @ (memories + memories @ self.memory.T)
        asked = question + self.query @ question
        query, memory = np.outer(told, question), np.outer(asked, slope @ memories)
        return replace(self, query=self.query + by * query, memory=self.memory + by * memory)

    @property
    def learnt(self) -> tuple[tuple[float, ...], ...]:
        """As `hocket.core.texts.Recall` has it: `q'^T m' = q^T m + q^T L m`."""
        whole = self.query.T + self.memory + self.query.T @ self.memory
        return tuple(tuple(row) for row in whole.round(6).tolist())


# ---------------------------------------------------------------- citations


def cited(answer: str, memories: Sequence[str]) -> frozenset[int]:
    """Which of the memories shown an answer cites, by their places: `[2]` or `[1, 3]`, counted from 1.

    Where it has no such brackets those are meant that hold every word of what it answers.
    """
    numbers = {int(one) - 1 for group in _CITED.findall(answer) for one in group.split(",")}
    if _CITED.search(answer):
        return frozenset(number for number in numbers if 0 <= number < len(memories))
    said = set(words(answer if (inside := tagged(answer)) is None else inside))
    return frozenset(place for place, one in enumerate(memories) if said and said <= set(words(one)))


def reward(cites: frozenset[int], shown: int) -> float:
    """The mean of +1 for a memory that is cited and -1 for one that is not."""
    return (2 * len(cites) - shown) / shown


# ---------------------------------------------------------------- the two reflections


def prospect(
    bench: SearchBench, bank: Sequence[str], session: str, near: int = 3, *, extract: str = EXTRACT, merge: str = MERGE
) -> tuple[str, ...]:
    """The bank of memories after a session; `extract` and `merge` are what the reflecting model is asked."""
    kept = list(bank)
    for line in bench.ask(extract.format(session=session)).splitlines():
        memory = line.strip(" -*\t")
        if not memory or memory in kept:
            continue
        places = _nearest(memory, kept, near)
        listed = "\n".join(f"{number}. {kept[place]}" for number, place in enumerate(places, 1))
        merged = _MERGE.search(bench.ask(merge.format(memory=memory, near=listed))) if places else None
        if merged is not None and 0 < int(merged[1]) <= len(places):
            kept[places[int(merged[1]) - 1]] = merged[2].strip()
        else:
            kept.append(memory)
    return tuple(dict.fromkeys(kept))


def _nearest(memory: str, bank: Sequence[str], near: int) -> list[int]:
    found = scores(Recall(near), memory, bank)
    return [place for place in subsets.best(found, near) if found[place] > 0]


@dataclass(frozen=True)
class ReflectiveMemory(Searcher):
    """See the module.

    The practice cases are played once without memories: these are the sessions, and the right answer, where there is
    one, is what the user said to it. After each the bank grows. Then they are asked again in `rounds`, with memories
    that the reranker draws, and it learns from every answer. After a round bank and reranker are measured.

    Attributes:
        shown: K. among: N. rounds: of questions asked again. rate: eta. buckets: of the hashed words. temperature: of
            the draw.
    """

    shown: int = 3
    among: int = 10
    rounds: int = 4
    rate: float = 0.01
    buckets: int = 64
    temperature: float = 0.1
    extract: str = EXTRACT
    merge: str = MERGE

    def __post_init__(self) -> None:
        for name in ("shown", "rounds", "buckets"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"searcher.{name} = {getattr(self, name)}: it must be at least 1")
        if not self.shown <= self.among:
            raise ConfigurationError(f"searcher.among = {self.among}: choose among at least the {self.shown} shown")
        if self.shown > subsets.LARGEST:
            raise ConfigurationError(f"searcher.shown = {self.shown}: show at most {subsets.LARGEST} memories")
        if min(self.rate, self.temperature) <= 0:
            raise ConfigurationError(f"searcher.rate = {self.rate} and temperature = {self.temperature}: set both > 0")
        check_wording("extract", self.extract, EXTRACT)
        check_wording("merge", self.merge, MERGE)

    def search(self, bench: SearchBench) -> None:
        sessions = bench.practise(bench.start, range(bench.practice))
        bank = bench.start.library
        for one in sessions:
            right = f"\nUser: {one.expected}" if one.expected else ""
            session = f"User: {one.question}\nAssistant: {one.answer}{right}"
            bank = prospect(bench, bank, session, extract=self.extract, merge=self.merge)
        if not bank:
            return
        start = replace(bench.start, library=bank, recall=Recall(self.shown, among=self.among))
        static = bench.measure(start, f"{len(bank)} memories, as BM25 finds them", bench.trials[0])
        if static is not None:
            self.retrospect(bench, static, sessions)

    def retrospect(self, bench: SearchBench, static: Trial, sessions: Sequence[CaseResult]) -> Reranker:
        """Asks again what was asked in sessions, and learns from what is cited; the reranker at the end."""
        learning = Learning(Reranker.new(self.buckets, self.temperature))
        parent = static
        for number in range(1, self.rounds + 1):
            at = bench.key.derive("round", number)
            for place in at.derive("order").numpy().permutation(len(sessions)).tolist():
                learning = self._asked(bench, static.texts, sessions[place], learning, number, at.derive(place))
            recall = replace(static.texts.recall, learnt=learning.reranker.learnt)  # type: ignore[type-var]
            how = f"round {number}: reward {learning.mean:+.3f} on average"
            parent = bench.measure(replace(static.texts, recall=recall), how, parent) or parent
        return learning.reranker

    def _asked(
        self, bench: SearchBench, texts: Texts, session: CaseResult, learning: Learning, number: int, key: Key
    ) -> Learning:
        """The question of a session once more, and the reranker after the answer."""
        assert texts.recall is not None
        there = candidates(texts.recall, session.question, texts.library)
        told = vectors([session.question, *(texts.library[place] for place in there)], self.buckets)
        drawn = subsets.drawn(learning.reranker.scores(told[0], told[1:]), self.shown, key)
        memories = tuple(texts.library[there[place]] for place in drawn)
        before = replace(texts, library=memories, recall=None)
        answered = bench.practise(before, [session.case], again=number)[0]
        said = answered.said[-1][1] if answered.said else answered.answer
        return learning.after(told[0], told[1:], drawn, reward(cited(said, memories), len(memories)), self.rate)


@dataclass(frozen=True)
class Learning:
    """A reranker on its way: with the rewards so far, whose mean is the baseline; 0 before the first."""

    reranker: Reranker
    rewards: tuple[float, ...] = field(default=())

    @property
    def mean(self) -> float:
        return sum(self.rewards) / len(self.rewards) if self.rewards else 0.0

    def after(self, question: Numbers, memories: Numbers, drawn: Sequence[int], reward: float, rate: float) -> Learning:
        """After one answer."""
        moved = self.reranker.moved(question, memories, drawn, rate * (reward - self.mean))
        return Learning(moved, (*self.rewards, reward))


RMM = SearchMethod(
    name="rmm",
    description="memories of earlier sessions, and a reranker of them that learns from what is cited",
    searcher=ReflectiveMemory(),
    source="arXiv:2503.08026",
)
