"""TOA's claims."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import fmean, stdev
from typing import Any

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor
from hocket.core.keys import Key
from hocket.engine.requests import Request
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.methods.base.dpo import DPO
from hocket.methods.search.toa.method import TOA, TOA_DPO, PairsOfTree, SeatSearch, SeatTree, TreeOfAgents
from hocket.methods.search.toa.seats import Alone, Growth, SeatBeam, WideningTree, best_answer, seat_of, worth
from hocket.methods.search.toa.workflow import Relay
from hocket.nano.tokenizer import build_tokenizer
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.rollout.message_tree import MessageNode
from hocket.stages import Rollout
from hocket.testing import ScriptedEngine
from hocket.train.aio import run_async
from hocket.train.loop import Playing
from hocket.types import Assignment, Experience, Scenario, Score, Trajectory

claim = Claims("toa", "arXiv:2412.17061")
SEATS = ("agent_1", "agent_2", "agent_3")
Answers = Callable[[str, str, Sequence[float], Request], float]
"""What a seat's answer is worth: by seat, question, the worth of the answers that it reads, and the request."""


@dataclass(eq=False)
class Table:
    """Models whose answers are numbers: what they are worth. Every answer has as many tokens."""

    answers: Answers
    seats: Sequence[str] = SEATS
    said: list[tuple[str, tuple[float, ...]]] = field(default_factory=list)

    @property
    def player(self) -> TextPlayer:
        chat = Chat(build_tokenizer())
        engines = {seat: ScriptedEngine(self._script(seat), chat) for seat in self.seats}
        actors = {seat: Actor(seat, engines[seat], chat) for seat in self.seats}
        return TextPlayer(Relay(len(self.seats)), actors, references=actors)

    def _script(self, seat: str) -> Callable[[Request], str]:
        def says(request: Request) -> str:
            question, *lines = str(request.messages[-1]["content"]).splitlines()
            read = tuple(float(re.sub(r"Answer \d+: ", "", line)) for line in lines)
            self.said.append((seat, read))
            return f"{self.answers(seat, question, read, request):.4f}"

        return says

    def trees(self, search: SeatSearch, questions: Sequence[str], seed: int = 0) -> list[SeatTree]:
        asked = [Assignment(Scenario(one, one)) for one in questions]
        return run_async(search(asked, play=Playing(self.player, Key.of(seed)), score=scored))

    def collected(self, rollout: Rollout, questions: Sequence[str]) -> Experience:
        asked, key = [Assignment(Scenario(one, one)) for one in questions], Key.of(0)
        ledger: Any = None
        return run_async(rollout.collect(asked, play=Playing(self.player, key), score=scored, ledger=ledger, key=key))


async def scored(played: Sequence[Trajectory]) -> None:
    for one in played:
        one.scores["task"] = Score(float(one.turns[-1].text))


def certain(seed: int) -> Answers:
    """Each seat's answer is a number drawn for the question and all that it read."""
    return lambda seat, question, read, request: float(
        Key.of(seed).derive(seat, question, *map(str, read)).numpy().random()
    )


def drawn(seat: str, question: str, read: Sequence[float], request: Request) -> float:
    """Another number each time, so that no two chains are worth the same."""
    return float(request.key.numpy().random())


def chains(answers: Answers, question: str, depth: int) -> list[float]:
    """The worth of every chain of seats up to a depth, by enumeration; answers as they are written down."""
    request: Any = None
    level, found = list[tuple[float, ...]]([()]), list[float]()
    for _ in range(depth):
        level = [(*read, round(answers(seat, question, read, request), 4)) for read in level for seat in SEATS]
        found += [chain[-1] for chain in level]
    return found


@claim("On a tree of two steps with certain answers it returns the optimum once all children are visited: 12 calls.")
def on_a_tree_of_two_steps_with_certain_answers_it_returns_the() -> Finding:
    gaps, short = [], 0
    growth = WideningTree(c=100.0, widen=3.0, power=0.0, depth=2)
    for seed in range(40):
        table = Table(certain(seed))
        (tree,) = table.trees(SeatSearch(calls=12, growth=growth), ["q"])
        (less,) = table.trees(SeatSearch(calls=11, growth=growth), ["q"])
        best, optimum = best_answer(tree.root), max(chains(table.answers, "q", 2))
        assert best is not None
        gaps.append(abs(worth(best) - optimum))
        short += sum(1 for node in less.root.below() if node.episodes) == 11
    return Finding(max(gaps) == 0 and short == 40, say(off_the_optimum=gaps, trees_of_11_without_repeats=short))


@dataclass(frozen=True)
class ByHand(Growth):
    """`WideningTree`'s rule from the list of answers alone, in the order in which they came."""

    of: WideningTree
    parts: list[bool] = field(default_factory=list)

    def place(self, root: MessageNode, seats: Sequence[str]) -> tuple[MessageNode, str]:
        node, seat = self.of.place(root, seats)
        self.parts.append((path_of(node), seat) == self._due(root, seats))
        return node, seat

    def _due(self, root: MessageNode, seats: Sequence[str]) -> tuple[list[int], str]:
        known = [(path_of(one), str(seat_of(one)), worth(one)) for one in root.below() if one.episodes]
        here: list[int] = []

        def below(path: list[int]) -> list[float]:
            return [value for one, _, value in known if one[: len(path)] == path]

        def children(path: list[int]) -> list[tuple[list[int], str, float]]:
            return [one for one in known if len(one[0]) == len(path) + 1 and one[0][: len(path)] == path]

        def bound(values: Sequence[float], parent: float) -> float:
            return fmean(values) + self.of.c * math.sqrt(math.log(parent) / len(values))

        while len(here) + 1 < self.of.depth and len(children(here)) >= max(
            1, math.ceil(self.of.widen * len(below(here)) ** self.of.power)
        ):
            here = max((one[0] for one in children(here)), key=lambda path: bound(below(path), len(below(here))))
        tried = {seat: [v for path, s, _ in children(here) if s == seat for v in below(path)] for seat in seats}
        fresh = [seat for seat in seats if not tried[seat]]
        if fresh:
            mean = {seat: [v for _, s, v in known if s == seat] for seat in fresh}
            return here, max(fresh, key=lambda seat: fmean(mean[seat]) if mean[seat] else math.inf)
        total = sum(map(len, tried.values()))
        return here, max(seats, key=lambda seat: bound(tried[seat], total))


def path_of(node: MessageNode) -> list[int]:
    """Which child it is, of which child, and so on."""
    return [one.parent.children.index(one) for one in node.nodes[1:] if one.parent is not None]


@claim("Where the tree grows, and who answers, is the formula computed anew from all answers so far.", "derived")
def where_the_tree_grows_and_who_answers_is_the_formula_computed() -> Finding:
    right, deepest = list[bool](), 0
    for seed, (c, widen) in itertools.product(range(6), ((0.5, 1.5), (2.0, 1.0), (0.0, 2.5))):
        growth = ByHand(WideningTree(c=c, widen=widen, power=0.3 + 0.1 * (seed % 3), depth=3 + seed % 2))
        (tree,) = Table(drawn).trees(SeatSearch(calls=40, growth=growth), ["q"])
        right += growth.parts
        deepest = max(deepest, *(len(node.path) for node in tree.root.below()))
    nodes = [node for node in tree.root.below() if node.episodes]
    counts = all(node.visits == sum(1 for one in node.below() if one.episodes) for node in nodes)
    means = max(abs(node.mean - fmean(worth(one) for one in node.below())) for node in nodes)
    holds = all(right) and counts and means < 1e-12 and deepest == 4
    return Finding(holds, say(placed=len(right), otherwise=right.count(False), means_off_by=means, deepest=deepest))


def generators(seed: int) -> Answers:
    """Three models of question-dependent strength; each is good at improving one other's answers, not its own."""
    helped = Key.of(seed).derive("helped").numpy().permutation(3)

    def answers(seat: str, question: str, read: Sequence[float], request: Request) -> float:
        place = SEATS.index(seat)
        strength = 0.3 + 0.25 * float(Key.of(seed).derive("strength", question, seat).numpy().random())
        noise = 0.06 * float(request.key.numpy().normal())
        if not read:
            return min(max(strength + noise, 0.0), 1.0)
        last = question_of_last(request)
        gain = 0.1 if helped[place] == (helped[last] + 1) % 3 else -0.1
        return min(max(0.7 * read[-1] + 0.3 * strength + gain + noise, 0.0), 1.0)

    return answers


def question_of_last(request: Request) -> int:
    """Who gave the answer read last: the seats are told apart by a fourth decimal of their own."""
    last = str(request.messages[-1]["content"]).splitlines()[-1]
    return int(last[-1]) % 3


def marked(answers: Answers) -> Answers:
    """Answers whose fourth decimal says whose they are."""

    def says(seat: str, question: str, read: Sequence[float], request: Request) -> float:
        return math.floor(answers(seat, question, read, request) * 999) / 1000 + SEATS.index(seat) / 10000

    return says


BUDGETS = (12, 48)
QUESTIONS = [f"question {number}" for number in range(12)]


@cache
def outcomes(seed: int) -> dict[str, list[float]]:
    """The mean worth of the answer that each way returns, by budget. Calls are of equal length, so tokens are equal."""
    table = Table(marked(generators(seed)))
    alone = {seat: SeatSearch((seat,), growth=Alone()) for seat in SEATS}
    ways = {
        "tree": SeatSearch(growth=WideningTree()),
        "beam": SeatSearch(growth=SeatBeam()),
        "all seats, best of n": SeatSearch(growth=Alone()),
        "fixed pipeline": SeatSearch(growth=SeatBeam(width=1, candidates=1, depth=3)),
    }
    found: dict[str, list[float]] = {}
    for name, search in {**ways, **alone}.items():
        found[name] = []
        for calls in BUDGETS:
            trees = table.trees(replace(search, calls=calls), QUESTIONS)
            found[name].append(fmean(worth(best) for one in trees if (best := best_answer(one.root)) is not None))
    found["best model, best of n"] = found[max(SEATS, key=lambda seat: fmean(found[seat]))]
    return found


@claim(
    "At equal calls of equal length the search beats the best of n of the best single model, uniform mixing and a "
    "fixed pipeline, and its lead over each is larger with 48 calls than with 12. A beam over seats is ahead of it.",
    slow=True,
)
def at_equal_calls_of_equal_length_the_search_beats_the_best_of_n() -> Finding:
    seeds = range(6)
    rivals = ("best model, best of n", "all seats, best of n", "fixed pipeline")
    ahead = {
        rival: [[outcomes(seed)["tree"][n] - outcomes(seed)[rival][n] for seed in seeds] for n in range(len(BUDGETS))]
        for rival in rivals
    }
    growth = [[late - early for early, late in zip(*gaps, strict=True)] for gaps in ahead.values()]
    gains = [one for gaps in ahead.values() for one in gaps] + growth
    clear = all(fmean(one) > 2 * stdev(one) / math.sqrt(len(seeds)) for one in gains)
    names = ("tree", *rivals, "beam")
    means = {name: [fmean(outcomes(seed)[name][n] for seed in seeds) for n in (0, 1)] for name in names}
    beam = all(high < other for high, other in zip(means["tree"], means["beam"], strict=True))
    shown = ", ".join(f"{name} {low:.3f} at 12 and {high:.3f} at 48" for name, (low, high) in means.items())
    return Finding(clear and beam, shown)


@claim("A policy is shown the tree's best answer after the question alone, and nothing where none is worth anything.")
def a_policy_is_shown_the_trees_best_answer_after_the_question() -> Finding:
    table = Table(
        lambda seat, question, read, request: (
            0.0 if question == "hopeless" else certain(1)(seat, question, read, request)
        )
    )
    questions = ["q", "hopeless", "r"]
    kept = table.collected(TreeOfAgents(), questions).trajectories
    trees = table.trees(SeatSearch(), questions)
    due = [worth(best) for tree in trees if (best := best_answer(tree.root)) is not None and worth(best) > 0]
    shown = [float(one.turns[0].text) for one in kept]
    plain = all(len(one.turns) == 1 and one.turns[0].role == "agent_1" and one.source == "expert" for one in kept)
    told = [table.player.decode(one.turns[0].observation.tolist()) for one in kept]
    bare = all(one.scenario.id in text and "Answer" not in text for one, text in zip(kept, told, strict=True))
    deep = any(len(best.path) > 1 for tree in trees if (best := best_answer(tree.root)) is not None)
    holds = shown == due and plain and bare and deep and [one.scenario.id for one in kept] == ["q", "r"]
    return Finding(holds, say(shown=shown, best_of_the_trees=due))


@claim("Pairs are the tree's best answer against its worst; where all are worth the same there is none.")
def pairs_are_the_trees_best_answer_against_its_worst_where_all_are() -> Finding:
    def says(seat: str, question: str, read: Sequence[float], request: Request) -> float:
        return 0.5 if question == "even" else certain(2)(seat, question, read, request)

    table = Table(says)
    pair = table.collected(PairsOfTree(), ["q", "even"]).trajectories
    (tree,) = table.trees(SeatSearch(), ["q"])
    values = [worth(node) for node in tree.root.below() if node.episodes]
    shown = [float(one.turns[0].text) for one in pair]
    labels = [one.scores["preference"].value for one in pair]
    return Finding(shown == [max(values), min(values)] and labels == [1.0, 0.0], say(pair=shown, labels=labels))


@claim(
    "Both recipes ship with 16 answers by three seats, c = 0.2, widened by 1.5 N^0.4, chains of 4; told are counts and "
    "means."
)
def both_recipes_ship_with_16_answers_by_three_seats_c_0_2_widened() -> Finding:
    grown = SeatSearch(SEATS, calls=16, tokens=None, growth=WideningTree(c=0.2, widen=1.5, power=0.4, depth=4))
    shipped = TOA.rollout == TreeOfAgents(grown, least=0.0) and TOA_DPO.rollout == PairsOfTree(grown)
    shipped &= TOA.workflow == TOA_DPO.workflow == Relay.name and TOA_DPO.objective == DPO.objective
    shipped &= TOA.objective == NegativeLogLikelihood(aggregate="token-mean")
    table, questions = Table(certain(5)), ["q", "r", "s"]
    trees = table.trees(SeatSearch(), questions)
    nodes = [[one for one in tree.root.below() if one.episodes] for tree in trees]
    best = [max(mine, key=worth) for mine in nodes]
    wanted = {
        "messages": 48.0,
        "tokens": float(sum(len(node.path[-1].action) for mine in nodes for node in mine)),
        "kept": 3.0,
        "best": fmean(map(worth, best)),
        "first": fmean(worth(tree.root.children[0]) for tree in trees),
        "refined": sum(len(one.path) >= 2 for one in best) / 3,
        "depth": fmean(len(one.path) for mine in nodes for one in mine),
        "seats": float(len({one.path[-1].role for one in best})),
    }
    told = [table.collected(rollout, questions).metrics for rollout in (TreeOfAgents(), PairsOfTree())]
    off = max(abs(one[f"rollout/{name}"] - value) for one in told for name, value in wanted.items())
    none = table.collected(TreeOfAgents(least=2.0), ["q"])
    empty = not none.trajectories and none.metrics["rollout/kept"] == 0
    return Finding(shipped and off < 1e-12 and empty and wanted["refined"] > 0, say(shipped=shipped, **wanted))


@claim("A beam goes on from the best of each level: those it leaves have no children.")
def a_beam_goes_on_from_the_best_of_each_level_those_it_leaves_have() -> Finding:
    wrong, levels = 0, []
    for seed in range(10):
        (tree,) = Table(certain(seed)).trees(
            SeatSearch(calls=3 + 6 + 6 + 6, growth=SeatBeam(width=2, candidates=3, depth=4)), ["q"]
        )
        level = [tree.root]
        sizes = []
        while level := [child for node in level for child in node.children]:
            grown = [worth(node) for node in level if node.children]
            left = [worth(node) for node in level if not node.children]
            wrong += bool(grown) and (min(grown) < max(left) or len(grown) != 2)
            sizes.append(len(level))
        levels.append(sizes == [3, 6, 6, 6])
    return Finding(wrong == 0 and all(levels), say(levels_gone_on_from_worse=wrong, of_the_right_sizes=sum(levels)))


claim.shipped(
    TOA,
    without={"rollout.search.growth": Alone()},
    sees=lambda run: {
        "messages": run.mean("rollout/messages"),
        "kept": run.mean("rollout/kept"),
        "answers that read another": run.mean("rollout/depth") - 1,
    },
    settings={"curriculum.prompts": 8},
)

claim.spares(
    "toa: curriculum.prompts = 640", "what a run takes where neither recipe nor user says; the paper names none"
)
claim.spares("toa: update.epochs = 40", "what a run takes where neither recipe nor user says; the paper names none")
claim.spares(
    "toa: update.minibatches = 40", "what a run takes where neither recipe nor user says; the paper names none"
)
claim.spares(
    "toa: update.clip_norm = 40.0", "what a run takes where neither recipe nor user says; the paper names none"
)
claim.spares("toa: update.clip_norm = 0.0", "what a run takes where neither recipe nor user says; the paper names none")
claim.spares("toa: update.warmup = 40", "what a run takes where neither recipe nor user says; the paper names none")
claim.spares(
    "toa: update.weight_decay = 1.0", "what a run takes where neither recipe nor user says; the paper names none"
)
claim.spares("toa: credit.value = 40.0", "a likelihood reads no advantage")
claim.spares("toa: credit.value = 0.0", "a likelihood reads no advantage")
