"""OPTAGENT's claims."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.texts import Edge, Texts
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.graph_world import Debaters, evaluating
from hocket.lab.texts_worlds import searched
from hocket.methods.search.optagent import OPTAGENT, VerbalGraph, _Grades
from hocket.search.searcher import Bench

claim = Claims("optagent", "arXiv:2510.18032")
SEEDS = range(8)


def team(seed: int) -> Debaters:
    """Four agents of drawn ability, one of them good, and two that get worse by reading."""
    draw = Key.of(seed).derive("team").numpy()
    able = draw.permutation([draw.uniform(0.8, 0.95), *draw.uniform(0.4, 0.65, 3)]).tolist()
    confused = draw.permutation([0.5, 0.3, 0.0, 0.0]).tolist()
    return Debaters(tuple(able), (0.9,) * 4, tuple(confused), exact=True)


def every(one: Debaters) -> list[Edge]:
    return [(reader, read) for reader in one.roles for read in one.roles if reader != read]


@cache
def exhaustive(seed: int) -> float:
    """The accuracy of the best of all 4096 graphs."""
    one = team(seed)
    edges = every(one)
    graphs = itertools.chain.from_iterable(itertools.combinations(edges, size) for size in range(len(edges) + 1))
    return max(one.accuracy(frozenset(graph)) for graph in graphs)


@cache
def found(seed: int, grades: str = "true") -> Bench:
    """A search as shipped; development is exact, so that chance does not choose."""
    reflect = evaluating if grades == "true" else (lambda question: "KEEP")
    return searched(team(seed), reflect, OPTAGENT.searcher, seed=seed, budget=10**7, practice=200, development=1)


def accuracy(seed: int) -> float:
    best = found(seed).best.texts.edges
    one = team(seed)
    return one.accuracy(frozenset(every(one) if best is None else best))


@claim("The exact accuracy of a graph is what playing it comes to.")
def _() -> Finding:
    gaps = []
    for seed in SEEDS[:3]:
        one = replace(team(seed), exact=False)
        edges = tuple(every(one)[seed::2])
        played = one.play(Texts(edges=edges), range(4000), 1, greedy=False, key=Key.of(seed))
        gaps.append(abs(fmean(each.score for each in played) - one.accuracy(frozenset(edges))))
    return Finding(max(gaps) < 0.03, say(gap=gaps))


@claim(
    "It finds a graph of four agents within 2 % of the best of all 4096, in at most 20 % of so many evaluations, in "
    "every seed.",
    slow=True,
)
def _() -> Finding:
    behind = [1 - accuracy(seed) / exhaustive(seed) for seed in SEEDS]
    tried = [len(found(seed).trials) for seed in SEEDS]
    return Finding(max(behind) < 0.02 and max(tried) <= 0.2 * 4096, say(behind=behind, graphs_measured=tried))


@claim("The graph found beats the complete one and no communication, where reading confuses some.", slow=True)
def _() -> Finding:
    ours, full, none = [], [], []
    for seed in SEEDS:
        one = team(seed)
        ours.append(accuracy(seed))
        full.append(one.accuracy(frozenset(every(one))))
        none.append(one.accuracy(frozenset()))
    holds = all(a > max(b, c) for a, b, c in zip(ours, full, none, strict=True))
    return Finding(holds, say(ours=ours, complete=full, none=none))


@claim("Verbal feedback is worth graphs: with it the final accuracy is reached after fewer than without.", slow=True)
def _() -> Finding:
    def needed(bench: Bench, score: float) -> int:
        return next((trial.number for trial in bench.trials if trial.score >= score), len(bench.trials))

    goals = [min(found(seed).best.score, found(seed, "none").best.score) for seed in SEEDS]
    told = [needed(found(seed), goal) for seed, goal in zip(SEEDS, goals, strict=True)]
    blind = [needed(found(seed, "none"), goal) for seed, goal in zip(SEEDS, goals, strict=True)]
    return Finding(fmean(told) < fmean(blind), say(graphs_with_feedback=told, without=blind))


@claim(
    "A search is the module's, round by round: what is graded and by whom, what the controller is shown, which change "
    "is made, by its word or by the highest bound, and when it ends.",
    "derived",
)
def _() -> Finding:
    wrong, ends, sources = list[str](), [], set[str]()
    for seed in range(3):
        one = Debaters((0.9, 0.6, 0.5), (0.9, 0.8, 0.9), (0.4, 0.0, 0.2), exact=True)
        asked: list[tuple[str, str]] = []
        names = [f"{reader} < {read}" for reader, read in every(one)]

        def reflect(question: str, seed: int = seed, names: list[str] = names, asked: list[Any] = asked) -> str:
            draw = Key.of(seed).derive("reflect", len(asked)).numpy()
            answer = "\n".join(f"{name}: {'+' if draw.random() < 0.5 else '-'}1" for name in names)
            if "You control" in question:
                answer = f"{draw.choice(['ADD', 'REMOVE'])} {draw.choice(names)}" if draw.random() < 0.7 else "KEEP"
            asked.append((question, answer))
            return answer

        solver = VerbalGraph(cases=3, recent=2)
        bench = searched(one, reflect, solver, seed=seed, budget=10**6, practice=5, development=1)
        key = Key.of(seed).derive("searched").derive("play")
        whole, told, experience = frozenset(every(one)), iter(asked), list[str]()
        grades: dict[Edge, list[float]] = {edge: [] for edge in sorted(whole)}
        trials = [(whole, None, "the start"), (whole, 0, "all connected"), (frozenset[Edge](), 0, "none connected")]
        tried = {whole, frozenset[Edge]()}

        def mean(edge: Edge, grades: dict[Edge, list[float]] = grades) -> float:
            return fmean(grades[edge]) if grades[edge] else 0.0

        def listed(edges: Iterable[Edge], mean: Callable[[Edge], float] = mean) -> str:
            return ", ".join(f"{a} < {b} ({mean((a, b)):+.2f})" for a, b in sorted(edges)) or "none"

        for number in itertools.count():
            scores = [one.accuracy(graph) for graph, _, _ in trials]
            best = scores.index(max(scores))
            graph = trials[best][0]
            singles = [frozenset({edge}) for edge in sorted(whole)]
            doubles = [frozenset(pair) for pair in itertools.combinations(sorted(whole), 2)]
            left = [c for c in singles if graph ^ c not in tried] or [c for c in doubles if graph ^ c not in tried]
            if not left:
                break
            shown = whole if number == 0 else graph
            for place in range(3 * number, 3 * number + 3) if shown else ():
                edges = tuple(sorted(shown))
                (case,) = one.play(Texts(edges=edges), [place % 5], 1, first=3 * number // 5, greedy=False, key=key)
                question, answer = next(told)
                parts = ["Question: ?\nRight answer: right", "\n".join(f"{role}: {said}" for role, said in case.said)]
                parts.append(f"(reader < read): {', '.join(f'{a} < {b}' for a, b in edges)}\n")
                wrong += [part for part in parts if f"\n{part}" not in question.replace("Connections ", "\n")]
                for a, b, grade in re.findall(r"(\w+) < (\w+): ([+-]1)", answer):
                    if (a, b) in shown:
                        grades[a, b].append(float(grade))
            question, answer = next(told)
            known = "; ".join(experience[-2:]) or "none yet"
            for part in (
                "who reads whom among agent_1, agent_2, agent_3.",
                f"with their mean grades: {listed(graph)}\n",
                f"with theirs: {listed(whole - graph)}\n",
                f"Experience: {known}\n",
            ):
                wrong += [part] if part not in question else []
            word, _, name = answer.partition(" ")
            change = frozenset({(name.partition(" < ")[0], name.partition(" < ")[2])})
            fits = change in left and (word == "REMOVE") == (change <= graph)
            if not fits:
                worth = [
                    sum(
                        (-mean(edge) if edge in graph else mean(edge))
                        + math.sqrt(2 * math.log(2 + number) / (1 + len(grades[edge])))
                        for edge in one_change
                    )
                    for one_change in left
                ]
                rounded = [round(one_worth, 9) for one_worth in worth]
                change = left[rounded.index(max(rounded))]
            sources.add(f"{'controller' if fits else 'bound'} of {len(change)}")
            how = ", ".join(f"{'removed' if e in graph else 'added'} {e[0]} < {e[1]}" for e in sorted(change))
            tried.add(graph ^ change)
            trials.append((graph ^ change, best, how))
            experience.append(f"{how}: {scores[best]:.3f} to {one.accuracy(graph ^ change):.3f}")
        found = [(whole if t.texts.edges is None else frozenset(t.texts.edges), t.parent, t.how) for t in bench.trials]
        wrong += [] if found == trials and next(told, None) is None else [f"trials of seed {seed}"]
        ends.append(len(trials))
    holds = not wrong and sources == {"controller of 1", "bound of 1", "bound of 2"}
    return Finding(holds, say(trials=ends, wrong=str(wrong[:2]), changes_by=str(sorted(sources))))


@claim(
    "An edge's bound is its mean grade, turned round where it is there, and what too few grades leave open.", "derived"
)
def _() -> Finding:
    one, off = _Grades(), []
    for count, grade in enumerate((1.0, -1.0, 1.0), 1):
        one.total, one.count = one.total + grade, one.count + 1
        mean, open_ = (1.0, 0.0, 1 / 3)[count - 1], math.sqrt(2 * math.log(5) / (1 + count))
        off += [abs(one.bound(4, there=False) - mean - open_), abs(one.bound(4, there=True) + mean - open_)]
    new = abs(_Grades().bound(4, there=True) - math.sqrt(2 * math.log(5)))
    try:
        searched(Debaters((0.9,), (0.9,), (0.0,)), evaluating, VerbalGraph(), practice=2, development=1)
        refused = False
    except ConfigurationError as error:
        refused = "--workflow network" in str(error)
    return Finding(max(*off, new) < 1e-12 and refused, say(off=max(off), one_agent_is_refused=refused))


@claim("In the first round already what was never graded outweighs a bad grade among three.", "derived")
def _() -> Finding:
    """1/3 + sqrt(2 ln 2 / 4) is below sqrt(2 ln 2)."""
    said: list[str] = []

    def reflect(question: str) -> str:
        said.append(question)
        return "KEEP" if "You control" in question else f"agent_1 < agent_2: {-1 if len(said) == 1 else 0}"

    one = Debaters((0.6, 0.7, 0.9), (0.9,) * 3, (0.0,) * 3, exact=True)
    bench = searched(one, reflect, VerbalGraph(cases=3), budget=10**6, practice=5, development=1)
    how = [trial.how for trial in bench.trials]
    return Finding(how[3] == "removed agent_1 < agent_3", say(changes=str(how[3:5])))


def speaking(question: str) -> str:
    """Evaluators that find all well, and a controller that takes away who reads the last agent."""
    return "REMOVE agent_1 < agent_3" if "You control" in question else "agent_1 < agent_2: +1"


SMALL = {"workflow": "network?agents=3", "budget": 400, "practice": 4, "development": 8, "evaluation": 6}
claim.searched(OPTAGENT, speaking, **SMALL)
