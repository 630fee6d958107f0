"""OPTAGENT's claims."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache
from statistics import fmean

from hocket.agents.search.searcher import SearchBench
from hocket.core.keys import Key
from hocket.core.texts import Edge
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.texts_worlds import searched
from hocket.methods.search.optagent.graph_world import Debaters, evaluating
from hocket.methods.search.optagent.method import OPTAGENT, VerbalGraph

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
def found(seed: int, grades: str = "true") -> SearchBench:
    """A search as shipped; development is exact, so that chance does not choose."""
    reflect = evaluating if grades == "true" else (lambda question: "KEEP")
    return searched(team(seed), reflect, OPTAGENT.searcher, seed=seed, budget=10**7, practice=200, development=1)


def accuracy(seed: int) -> float:
    best = found(seed).best.texts.edges
    one = team(seed)
    return one.accuracy(frozenset(every(one) if best is None else best))


@claim(
    "It finds a graph of four agents within 2 % of the best of all 4096, in at most 20 % of so many evaluations, in "
    "every seed.",
    slow=True,
)
def it_finds_a_graph_of_four_agents_within_2_of_the_best_of_all() -> Finding:
    behind = [1 - accuracy(seed) / exhaustive(seed) for seed in SEEDS]
    tried = [len(found(seed).trials) for seed in SEEDS]
    return Finding(max(behind) < 0.02 and max(tried) <= 0.2 * 4096, say(behind=behind, graphs_measured=tried))


@claim("The graph found beats the complete one and no communication, where reading confuses some.", slow=True)
def the_graph_found_beats_the_complete_one_and_no_communication() -> Finding:
    ours, full, none = [], [], []
    for seed in SEEDS:
        one = team(seed)
        ours.append(accuracy(seed))
        full.append(one.accuracy(frozenset(every(one))))
        none.append(one.accuracy(frozenset()))
    holds = all(a > max(b, c) for a, b, c in zip(ours, full, none, strict=True))
    return Finding(holds, say(ours=ours, complete=full, none=none))


@claim("Verbal feedback is worth graphs: with it the final accuracy is reached after fewer than without.", slow=True)
def verbal_feedback_is_worth_graphs_with_it_the_final_accuracy_is() -> Finding:
    def needed(bench: SearchBench, score: float) -> int:
        return next((trial.number for trial in bench.trials if trial.score >= score), len(bench.trials))

    goals = [min(found(seed).best.score, found(seed, "none").best.score) for seed in SEEDS]
    told = [needed(found(seed), goal) for seed, goal in zip(SEEDS, goals, strict=True)]
    blind = [needed(found(seed, "none"), goal) for seed, goal in zip(SEEDS, goals, strict=True)]
    return Finding(fmean(told) < fmean(blind), say(graphs_with_feedback=told, without=blind))


@claim(
    "By hand: the complete graph is graded first, then the best; a change is the controller's where it is one that is "
    "left, else the one of the highest bound, of two edges where no single one is left, until none is."
)
def by_hand_the_complete_graph_is_graded_first_then_the_best_a() -> Finding:
    one, cases, trials = Debaters((0.9, 0.6, 0.45), (0.9,) * 3, (0.4, 0.0, 0.1), exact=True), 2, 0
    edges, wrong = sorted(every(one)), list[str]()
    grade = {edge: number % 3 - 1 for number, edge in enumerate(edges)}
    for said in ("KEEP", "REMOVE agent_3 < agent_1", "ADD agent_1 < agent_3", "ADD agent_1 < agent_9"):
        asked = list[str]()

        def reflect(question: str, said: str = said, asked: list[str] = asked) -> str:
            """Grades what is there and two edges that are not."""
            asked.append(question)
            lines = [f"{reader} < {read}: {value:+d}" for (reader, read), value in grade.items()]
            return said if "You control" in question else "\n".join([*lines, "agent_1 < agent_9: +1"])

        searcher = replace(VerbalGraph(), cases=cases, recent=3)
        bench = searched(one, reflect, searcher, seed=1, budget=10**7, practice=5, development=1)
        graphs = [frozenset(edges if t.texts.edges is None else t.texts.edges) for t in bench.trials]
        count, met, told, steered = dict.fromkeys(edges, 0), graphs[:3], list[str](), list[list[str]]()
        for number in range(1000):
            best = max(met, key=lambda graph: (one.accuracy(graph), -met.index(graph)))
            singles = [frozenset({edge}) for edge in edges if best ^ {edge} not in met]
            pairs = [frozenset(two) for two in itertools.combinations(edges, 2) if best ^ frozenset(two) not in met]
            if not (left := singles or pairs):
                break
            for edge in edges if number == 0 else sorted(best):
                count[edge] += cases

            mean = {edge: float(grade[edge]) if count[edge] else 0.0 for edge in edges}
            bound = {
                edge: mean[edge] * (-1 if edge in best else 1) + math.sqrt(2 * math.log(2 + number) / (1 + count[edge]))
                for edge in edges
            }
            words = said.split()
            named = frozenset({(words[1], words[3])}) if len(words) > 1 else frozenset()
            fits = named in left and (next(iter(named)) in best) == (words[0] == "REMOVE")
            change = named if fits else max(left, key=lambda some: sum(bound[edge] for edge in sorted(some)))
            lists = [
                [f"{e[0]} < {e[1]} ({mean[e]:+.2f})" for e in edges if (e in best) == now] for now in (True, False)
            ]
            steered.append([*(", ".join(some) or "none" for some in lists), "; ".join(told[-3:]) or "none yet"])
            what = ", ".join(f"{'removed' if e in best else 'added'} {e[0]} < {e[1]}" for e in sorted(change))
            told.append(f"{what}: {one.accuracy(best):.3f} to {one.accuracy(best ^ change):.3f}")
            met.append(best ^ change)
        heads = ("mean grades: ", "with theirs: ", "Experience: ")
        control = [question for question in asked if "You control" in question]
        known = [[question.partition(head)[2].partition("\n")[0] for head in heads] for question in control]
        listed = ", ".join(f"{reader} < {read}" for reader, read in edges)
        graded = "Question: ?\nRight answer: right\nagent_1: " in asked[0] and f"read): {listed}\n" in asked[0]
        wrong += [] if met == graphs and known == steered and graded else [said]
        trials += len(graphs)
    return Finding(not wrong and trials > 60, say(graphs=trials, otherwise=str(wrong)))


def speaking(question: str) -> str:
    """Evaluators that find all well, and a controller that takes away who reads the last agent."""
    return "REMOVE agent_1 < agent_3" if "You control" in question else "agent_1 < agent_2: +1"


SMALL = {"workflow": "network?agents=3", "budget": 400, "practice": 4, "development": 8, "evaluation": 6}
claim.searched(OPTAGENT, speaking, **SMALL)
