"""A team of stochastic agents whose accuracy under every communication graph is known exactly."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from hocket.agents.search.searcher import CaseResult
from hocket.core.keys import Key
from hocket.core.texts import Block, Edge, Texts, problem

Chances = tuple[float, ...]


@dataclass(frozen=True)
class Debaters:
    """Agents that are right with chance `able[i]` at first. Agent i, when it reads others, takes over the majority of
    what it reads with chance `open[i]` (its own where that is a tie) and is confused with chance `confused[i]`: then it
    is wrong. The team's answer is the majority, of a tie that with the first agent. Greedily played, as on development
    cases, a case scores the exact accuracy where it is `exact`: as if there were endlessly many.
    """

    able: Chances = (0.8, 0.65, 0.6, 0.5)
    open: Chances = (0.9, 0.9, 0.9, 0.9)
    confused: Chances = (0.3, 0.0, 0.0, 0.0)
    exact: bool = False

    @property
    def roles(self) -> Sequence[str]:
        return tuple(f"agent_{n}" for n in range(1, len(self.able) + 1))

    blocks: Sequence[Block] = ()

    def calls(self, texts: Texts) -> int:
        return len(self.able) + sum(map(bool, self._reads(texts)))

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> list[CaseResult]:
        """Chances depend on case and sample, not on the graph."""
        found = []
        reads = self._reads(texts)
        whole = self.accuracy(self._edges(texts)) if self.exact and greedy else None
        for case, sample in itertools.product(cases, range(first, first + samples)):
            draw = key.derive(case, sample).numpy().random((3, len(self.able)))
            before = [bool(one < able) for one, able in zip(draw[0], self.able, strict=True)]
            kinds = [self._kind(i, float(draw[1][i]), float(draw[2][i])) for i in range(len(before))]
            after = [_second(before, i, reads[i], kinds[i]) for i in range(len(before))]
            said = [(role, _word(one)) for role, one in zip(self.roles, before, strict=True)]
            again = [
                (role, _word(one)) for i, (role, one) in enumerate(zip(self.roles, after, strict=True)) if reads[i]
            ]
            right = _vote(after)
            score = float(right) if whole is None else whole
            found.append(CaseResult(case, sample, score, len(said + again), "?", "right", _word(right), said + again))
        return found

    def accuracy(self, edges: frozenset[Edge]) -> float:
        """Exact, by all first answers and all ways of reading."""
        return _exact(self, edges)

    def refuses(self, texts: Texts) -> str | None:
        return problem(texts, self.roles, {})

    def _reads(self, texts: Texts) -> list[tuple[int, ...]]:
        edges = sorted(self._edges(texts))
        places = {role: place for place, role in enumerate(self.roles)}
        return [tuple(places[read] for reader, read in edges if reader == role) for role in self.roles]

    def _edges(self, texts: Texts) -> frozenset[Edge]:
        every = ((one, other) for one in self.roles for other in self.roles if one != other)
        return frozenset(every if texts.edges is None else texts.edges)

    def _kind(self, agent: int, confusion: float, openness: float) -> str:
        if confusion < self.confused[agent]:
            return "confused"
        return "open" if openness < self.open[agent] else "firm"


@cache
def _exact(team: Debaters, edges: frozenset[Edge]) -> float:
    reads, agents = team._reads(Texts(edges=tuple(sorted(edges)))), range(len(team.able))
    chances = [
        {"confused": lost, "open": (1 - lost) * wide, "firm": (1 - lost) * (1 - wide)}
        for lost, wide in zip(team.confused, team.open, strict=True)
    ]
    total = 0.0
    for before in itertools.product((False, True), repeat=len(team.able)):
        chance = 1.0
        for able, one in zip(team.able, before, strict=True):
            chance *= able if one else 1 - able
        # Given the first answers agents are independent: the chance that each is right in the end.
        final = [sum(p for kind, p in chances[i].items() if _second(before, i, reads[i], kind)) for i in agents]
        for after in itertools.product((False, True), repeat=len(team.able)):
            if _vote(after):
                part = chance
                for p, one in zip(final, after, strict=True):
                    part *= p if one else 1 - p
                total += part
    return total


def _second(before: Sequence[bool], agent: int, reads: Sequence[int], kind: str) -> bool:
    if not reads or kind == "firm":
        return before[agent]
    if kind == "confused":
        return False
    right = sum(before[other] for other in reads)
    return before[agent] if 2 * right == len(reads) else 2 * right > len(reads)


def _vote(said: Sequence[bool]) -> bool:
    right = sum(said)
    return said[0] if 2 * right == len(said) else 2 * right > len(said)


def _word(right: bool) -> str:
    return "right" if right else "wrong"


def evaluating(question: str) -> str:
    """OPTAGENT's evaluators and controller, as rules.

    A reader who was made right owes it to those it read that were right, one who was made wrong to those that were
    wrong. The controller takes away the worst edge or adds the best, whichever says more.
    """
    if "You control" in question:
        return _steering(question)
    exchange, _, listed = question.partition("Connections (reader < read): ")
    said = re.findall(r"(agent_\d+): (right|wrong)", exchange)
    first, last = dict(reversed(said)), dict(said)
    lines = []
    for reader, read in re.findall(r"(agent_\d+) < (agent_\d+)", listed):
        better = (last[reader] == "right") - (first[reader] == "right")
        due = first[read] == ("right" if better > 0 else "wrong")
        lines.append(f"{reader} < {read}: {better if due else 0:+d}")
    return "\n".join(lines)


def _steering(question: str) -> str:
    def graded(line: str) -> list[tuple[float, str]]:
        return [(float(grade), edge) for edge, grade in re.findall(r"(\w+ < \w+) \(([+-][\d.]+)\)", line)]

    there, _, others = question.partition("Others that could be added")
    worst, best = min(graded(there), default=(0.0, "")), max(graded(others), default=(0.0, ""))
    if max(-worst[0], best[0]) <= 0:
        return "KEEP"
    return f"REMOVE {worst[1]}" if -worst[0] > best[0] else f"ADD {best[1]}"
