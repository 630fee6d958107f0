"""OPTAGENT's claims."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from statistics import fmean

from hocket.core.keys import Key
from hocket.core.texts import Edge, Texts
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.graph_world import Debaters, evaluating
from hocket.lab.texts_worlds import searched
from hocket.methods.search.optagent import OPTAGENT
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


def speaking(question: str) -> str:
    """Evaluators that find all well, and a controller that takes away who reads the last agent."""
    return "REMOVE agent_1 < agent_3" if "You control" in question else "agent_1 < agent_2: +1"


SMALL = {"workflow": "network?agents=3", "budget": 400, "practice": 4, "development": 8, "evaluation": 6}
claim.searched(OPTAGENT, speaking, **SMALL)
