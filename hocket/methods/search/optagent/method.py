"""OPTAGENT: who reads whom in a debate, chosen by verbal feedback (Bi et al., arXiv:2510.18032).

The communication graph is what is optimised. A round plays the best graph so far on a few practice cases; evaluators
grade every exchange for robustness and coherence, in words and by edge; a controller, shown the grades and its
experience so far, adds an edge, removes one, or keeps all. The answer is a majority vote of all agents.

The paper's text was not at hand, only a summary of its abstract. Ours are: a graph is measured on the development
cases and goes on to the next round if it is better; a change that was tried from the same graph is not tried again;
where the controller names none that is left, the change with the highest upper confidence bound is made: an edge's mean
grade speaks for adding it, and against taking it away. The first round plays the complete graph, so that every edge has
been graded; the search goes on from the best of it, no edges and the start. Where no single change is left, two at a
time are tried, and then it ends.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.agents.search.searcher import CaseResult, SearchBench, Searcher, SearchMethod, Trial
from hocket.core.errors import ConfigurationError
from hocket.core.texts import Edge

GRADE = """Agents answered a question, then some read others' answers and answered again.

Question: {question}{expected}
{exchange}

Connections (reader < read): {edges}
Grade what each connection did to its reader: robust and coherent or misleading. One line each:
READER < READ: +1, 0 or -1"""

STEER = """You control who reads whom among {roles}.

Connections now (reader < read), with their mean grades: {graded}
Others that could be added, with theirs: {others}
Experience: {experience}

Choose one change. Reply with one line: ADD reader < read, REMOVE reader < read, or KEEP."""

_PAIR = r"(\w+)\s*<\s*(\w+)"


@dataclass
class _Grades:
    """What evaluators said of an edge so far."""

    total: float = 0.0
    count: int = 0

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def bound(self, rounds: int, *, there: bool) -> float:
        """What changing the edge may be worth at best (UCB1)."""
        return (-self.mean if there else self.mean) + math.sqrt(2 * math.log(1 + rounds) / (1 + self.count))


@dataclass(frozen=True)
class VerbalGraph(Searcher):
    """See the module.

    Attributes:
        cases: practice cases of a round. recent: changes and what came of them that the controller remembers.
    """

    cases: int = 4
    recent: int = 8

    def __post_init__(self) -> None:
        if self.cases < 1 or self.recent < 0:
            raise ConfigurationError(
                f"searcher.cases = {self.cases}, searcher.recent = {self.recent}: at least 1 case, and no fewer than 0"
            )

    def search(self, bench: SearchBench) -> None:
        edges = tuple(sorted((one, other) for one in bench.roles for other in bench.roles if one != other))
        if not edges:
            raise ConfigurationError("optagent connects agents, and the workflow has one; take --workflow network")
        grades = {edge: _Grades() for edge in edges}
        full = bench.measure(replace(bench.start, edges=edges), "all connected", bench.trials[0])
        bench.measure(replace(bench.start, edges=()), "none connected", bench.trials[0])
        experience: list[str] = []
        tried: set[frozenset[Edge]] = {_graph(trial, edges) for trial in bench.trials}
        for number in itertools.count():
            best = bench.best
            graph = _graph(best, edges)
            left = _untried(graph, edges, tried)
            if not left:
                return
            shown = full if number == 0 and full is not None else best
            self._graded(bench, shown, _graph(shown, edges), grades, number)
            changed = _steered(bench, graph, left, grades, experience[-self.recent :], number + 1)
            tried.add(graph ^ changed)
            what = ", ".join(
                f"{'removed' if edge in graph else 'added'} {edge[0]} < {edge[1]}" for edge in sorted(changed)
            )
            trial = bench.measure(replace(best.texts, edges=tuple(sorted(graph ^ changed))), what, best)
            if trial is not None:
                experience.append(f"{what}: {best.score:.3f} to {trial.score:.3f}")

    def _graded(
        self, bench: SearchBench, best: Trial, graph: frozenset[Edge], grades: dict[Edge, _Grades], number: int
    ) -> None:
        """Plays the graph on the round's cases and enters what the evaluators say of its edges."""
        first = number * self.cases
        cases = range(first, first + min(self.cases, bench.practice))
        for one in bench.practise(best.texts, cases, again=first // bench.practice) if graph else ():
            for reader, read, grade in re.findall(rf"{_PAIR}\s*:\s*([+-]?[01])\b", bench.ask(_exchange(one, graph))):
                if (reader, read) in graph:
                    grades[reader, read].total += float(grade)
                    grades[reader, read].count += 1


def _graph(trial: Trial, every: Sequence[Edge]) -> frozenset[Edge]:
    """The edges of a trial; a network of which none are said is complete."""
    return frozenset(every if trial.texts.edges is None else trial.texts.edges)


def _untried(graph: frozenset[Edge], edges: Sequence[Edge], tried: set[frozenset[Edge]]) -> list[frozenset[Edge]]:
    """Changes of one edge, or where all were tried of two, that lead to a new graph."""
    for size in (1, 2):
        found = [frozenset(change) for change in itertools.combinations(edges, size)]
        if left := [change for change in found if graph ^ change not in tried]:
            return left
    return []


def _exchange(one: CaseResult, graph: frozenset[Edge]) -> str:
    right = f"\nRight answer: {one.expected}" if one.expected else ""
    said = "\n".join(f"{role}: {text}" for role, text in one.said)
    return GRADE.format(question=one.question, expected=right, exchange=said, edges=_listed(sorted(graph)))


def _steered(
    bench: SearchBench,
    graph: frozenset[Edge],
    left: Sequence[frozenset[Edge]],
    grades: dict[Edge, _Grades],
    experience: Sequence[str],
    rounds: int,
) -> frozenset[Edge]:
    """The edges to change: the controller's, else the bandit's, of those `left`."""
    there, absent = (_with_grades([edge for edge in grades if (edge in graph) == now], grades) for now in (True, False))
    known = "; ".join(experience) or "none yet"
    said = bench.ask(STEER.format(roles=", ".join(bench.roles), graded=there, others=absent, experience=known))
    named = re.search(rf"(ADD|REMOVE)\s+{_PAIR}", said)
    if named is not None:
        edge = (named[2], named[3])
        if frozenset({edge}) in left and (edge in graph) == (named[1] == "REMOVE"):
            return frozenset({edge})

    return max(left, key=lambda change: sum(grades[edge].bound(rounds, there=edge in graph) for edge in sorted(change)))


def _with_grades(edges: Sequence[Edge], grades: dict[Edge, _Grades]) -> str:
    return ", ".join(f"{one} < {other} ({grades[one, other].mean:+.2f})" for one, other in edges) or "none"


def _listed(edges: Sequence[Edge]) -> str:
    return ", ".join(f"{one} < {other}" for one, other in edges)


OPTAGENT = SearchMethod(
    name="optagent",
    description="who reads whom in a debate, changed edge by edge after verbal feedback",
    searcher=VerbalGraph(),
    source="arXiv:2510.18032",
)
