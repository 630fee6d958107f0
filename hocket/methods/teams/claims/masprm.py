"""What masprm claims."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

import torch

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench, total
from hocket.methods.teams.masprm import MASPRM
from hocket.rollout.message_search import UCT
from hocket.rollout.message_tree import Node, grafted
from hocket.search.beam import beam_search, best_of
from hocket.search.mcts import tree_search
from hocket.search.values import HeadValue, verdict
from hocket.stages import Play
from hocket.train.aio import run_async
from hocket.train.loop import Playing
from hocket.types import Assignment, Evaluation, Message, Scenario, Trajectory
from hocket.workflows.pipeline import Pipeline

claim = Claims("masprm", "arXiv:2510.24803 and its released code")


SEEDS = range(5)
WORDS = ("red", "blue", "green", "grey")
QUESTIONS = [Scenario(f"q{number}", f"question {number}", answer="red") for number in range(3)]
"""Three questions; the team does not know that the answer is always the same word."""


def team(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Each agent's table: one word, then the end; how likely each word is, a number drawn for all that was told."""
    closed = dict.fromkeys(("", *WORDS), -math.inf)
    if said:
        return closed | {"": 0.0}
    drawn = Key.of(3).derive(str(messages[-1]["content"])).numpy().normal(scale=1.5, size=len(WORDS))
    return closed | dict(zip(WORDS, drawn.tolist(), strict=True))


def pipeline(seed: int) -> TalkBench:
    recipe = MASPRM.but({"rollout.searches": 16})
    return TalkBench(Pipeline(), QUESTIONS, WORDS, recipe, length=2, ends=True, prior=team, seed=seed, lr=0.2)


@functools.cache
def exact() -> Mapping[tuple[str, ...], float]:
    """`2 p - 1` after each transcript (a question and the words said), by enumeration."""
    policy = pipeline(0).policies["policy"]
    value: dict[tuple[str, ...], float] = {}
    for length in (3, 2, 1, 0):
        for question in QUESTIONS:
            for said in itertools.product(WORDS, repeat=length):
                if length == 3:
                    value[question.id, *said] = 1.0 if said[-1] == question.answer else -1.0
                    continue
                notes = [f"Note {number}: {note}" for number, note in enumerate(said, start=1)]
                chance = policy.probabilities("\n".join([str(question.prompt), *notes])).tolist()
                value[question.id, *said] = sum(
                    chance[place] * value[question.id, *said, word] for place, word in enumerate(WORDS)
                )
    return value


def playing(bench: TalkBench, number: int) -> Play:
    return Playing(bench.player, Key.of(bench.seed).derive("search", number))


def asking(bench: TalkBench, question: Scenario) -> Assignment:
    return Assignment(question, decoding=bench.parts.decoding)


def said(node: Node) -> tuple[str, ...]:
    return tuple(turn.text for turn in node.path)


@claim("node means of messages that the agents choose converge to the enumerated 2p - 1", "catalogue", slow=True)
def means_converge() -> Finding:
    """Where the agents themselves choose the messages, a node's mean is unbiased."""
    bench, gaps, sums, largest = pipeline(1), [], 0, 0.0
    plays, value = 800, exact()
    roots = {question.id: Node() for question in QUESTIONS}
    for one in bench.play(plays):
        grafted(roots[one.scenario.id], one).back_up(2 * total(one) - 1)
    for name, root in roots.items():
        for node in root.below():
            want = value[(name, *said(node))]
            error = math.sqrt(max(1 - want**2, 0.0) / node.visits)
            gaps.append(abs(node.mean - want) / error if error else float(node.mean != want))
            sums += bool(node.children) and node.visits != sum(child.visits for child in node.children)
            largest = max(largest, abs(node.mean - want)) if node.visits >= 100 else largest
    return Finding(
        max(gaps) < 4.5 and sums == 0 and largest < 0.2,
        f"{plays} plays of each of {len(roots)} questions, {len(gaps)} nodes: means differ from the enumerated 2p - 1 "
        f"by at most {max(gaps):.1f} standard errors ({largest:.3f} where there were 100 visits); visits add up in all",
    )


def searched(c: float | None, candidates: int, searches: int, seed: int) -> list[tuple[Scenario, Node]]:
    bench = pipeline(seed)
    rule, play, found = UCT(c=c, candidates=candidates), playing(bench, 0), []
    for question in QUESTIONS:
        key = Key.of(seed).derive(question.id)
        _, root = run_async(tree_search(play, asking(bench, question), verdict, searches=searches, key=key, rule=rule))
        found.append((question, root))
    return found


@claim("N(parent) = sum N(children) in every expanded node of a search")
def visits_add_up() -> Finding:
    """And a node's mean is that of the outcomes of the ends below it, as often as each was reached."""
    expanded = wrong = 0
    gap = 0.0
    for _, root in searched(2.0, 4, 60, 0):
        for node in root.below():
            if not node.children:
                continue
            expanded += 1
            wrong += node.visits != sum(child.visits for child in node.children)
            ends = [one for one in node.below() if one.episodes]
            reached = sum(one.visits for one in ends)
            outcome = sum(one.visits * (2 * total(one.episodes[0]) - 1) for one in ends)
            gap = max(gap, abs(node.mean - outcome / reached)) if reached else gap
    return Finding(
        wrong == 0 and expanded > 50 and gap < 1e-12,
        f"{expanded} expanded nodes, N(parent) = sum N(children) in all but {wrong}; means are those of the ends below "
        f"to {gap:.0e}",
    )


@claim(
    "node means are unbiased for 2p - 1 with even visits; UCT's rise towards the best candidates",
    "derived; the catalogue claims the contrary",
    slow=True,
)
def uct_leans_to_the_best() -> Finding:
    """The counterexample: UCT goes where returns are high, so its means are not the team's."""
    value = exact()

    def bias(c: float | None, searches: int) -> tuple[float, float]:
        found = [
            root.mean - value[question.id,] for seed in range(8) for question, root in searched(c, 4, searches, seed)
        ]
        return statistics.fmean(found), statistics.stdev(found) / math.sqrt(len(found))

    few, many, even = bias(2.0, 20), bias(2.0, 100), bias(None, 100)
    return Finding(
        few[0] > 3 * few[1] and many[0] > few[0] + 3 * many[1] and abs(even[0]) < 3 * even[1],
        f"mean of the root minus 2p - 1 over 24 trees of 4 candidates, c = 2: {few[0]:+.2f} (se {few[1]:.2f}) after 20 "
        f"searches, {many[0]:+.2f} ({many[1]:.2f}) after 100; with even visits (c = None) {even[0]:+.2f} "
        f"({even[1]:.2f}): UCT's means go to the best candidates' outcome, those of even visits are the team's",
    )


@functools.cache
def trained(seed: int) -> TalkBench:
    return pipeline(seed).run(25)


def transcripts(bench: TalkBench) -> dict[tuple[str, ...], Trajectory]:
    """An episode put aside after every beginning that is likely enough to come up, and every whole one."""
    found: dict[tuple[str, ...], Trajectory] = {}
    for one in bench.play(60, seed=5):
        for length in range(1, len(one.turns) + 1):
            name = (one.scenario.id, *(turn.text for turn in one.turns[:length]))
            found.setdefault(name, Trajectory(one.scenario, one.turns[:length]))
    return found


def ranks(values: Sequence[float]) -> list[float]:
    """Places in order, equal values sharing the mean of theirs."""
    return [sum(other < one for other in values) + (values.count(one) - 1) / 2 for one in values]


@claim("a trained head ranks partial transcripts by their chance of success", slow=True)
def head_tells_transcripts_apart() -> Finding:
    """The head's values rank transcripts as their true success does."""
    value, agreement, error, constant = exact(), [], [], []
    for seed in SEEDS:
        bench = trained(seed)
        known = {name: one for name, one in transcripts(bench).items() if len(name) < 4}
        said = run_async(HeadValue(bench.policies["policy"])(list(known.values())))
        want = [value[name] for name in known]
        agreement.append(statistics.correlation(ranks(said), ranks(want)))
        error.append(statistics.fmean(abs(a - b) for a, b in zip(said, want, strict=True)))
        middle = statistics.fmean(want)
        constant.append(statistics.fmean(abs(one - middle) for one in want))
    return Finding(
        min(agreement) > 0.5 and max(error) < min(constant),
        f"rank correlation of tanh(z) with the enumerated 2p - 1 over unfinished transcripts, after 25 steps: mean "
        f"{statistics.fmean(agreement):.2f}, smallest of 5 seeds {min(agreement):.2f}; mean error "
        f"{statistics.fmean(error):.2f} (UCT's targets lean up), of the best constant {statistics.fmean(constant):.2f}",
    )


@claim("the loss is that of tanh(z) against each message's mean")
def fits_are_the_formulas() -> Finding:
    """Through the recipe's loss, on a searched batch, for all three fits."""
    batch = pipeline(2).step().batch
    assert batch is not None
    seen = batch.occurrences
    assert seen.target is not None
    used = seen.weight != 0
    once = torch.bincount(batch.turn[seen.decision[used]], minlength=batch.turns)
    output = torch.linspace(-3, 3, batch.decisions, dtype=torch.float64)
    z, y = output[seen.decision[used]].tolist(), seen.target[used].tolist()
    gaps = []
    for fit in ("squared", "huber", "cross-entropy"):
        recipe = MASPRM.but({"objective.fit": fit})
        now = Evaluation(logp=torch.zeros(batch.decisions, dtype=torch.float64), value=output)
        loss = float(recipe.loss(now, batch)[0].total())
        gaps.append(abs(loss - statistics.fmean(by_hand(fit, a, b) for a, b in zip(z, y, strict=True))))
    return Finding(
        max(gaps) < 1e-9 and int(once.min()) == int(once.max()) == 1 and max(map(abs, y)) <= 1,
        f"{len(y)} messages of one step, each with one target in [{min(y):.2f}, {max(y):.2f}]; losses by hand differ "
        f"by at most {max(gaps):.0e} for squared, huber and cross-entropy",
    )


def by_hand(fit: str, z: float, y: float) -> float:
    gap = abs(z - math.atanh(min(max(y, -0.95), 0.95)))
    if fit == "squared":
        return gap**2
    if fit == "huber":
        return gap**2 / 0.2 if gap < 0.1 else gap - 0.05
    p, q = (1 + y) / 2, 1 / (1 + math.exp(-2 * z))
    return -(p * math.log(q) + (1 - p) * math.log(1 - q))


def accuracies(seed: int) -> tuple[float, float, float, float]:
    """Of one straight pass, the best of 4, and beams that sample 12 and 10 messages, over 20 tries of each question."""
    bench = trained(seed)
    value, right = HeadValue(bench.policies["policy"]), [0.0] * 4
    for number in range(20):
        play = playing(bench, number)
        for question in QUESTIONS:
            ask = asking(bench, question)
            found = [
                run_async(best_of(play, ask, value, samples=1)).episode,
                run_async(best_of(play, ask, value, samples=4)).episode,
                run_async(beam_search(play, ask, value, width=1, candidates=4)).episode,
                run_async(beam_search(play, ask, value, width=2, candidates=2)).episode,
            ]
            right = [sum(pair) for pair in zip(right, map(total, found), strict=True)]
    one, best, narrow, wide = (count / (20 * len(QUESTIONS)) for count in right)
    return one, best, narrow, wide


@claim("a guided beam beats one pass, and the best of B at as many messages", slow=True)
def guided_beam_wins() -> Finding:
    found = [accuracies(seed) for seed in SEEDS]
    one, best, narrow, wide = (statistics.fmean(column) for column in zip(*found, strict=True))
    ahead = min(row[2] - row[1] for row in found)
    over = min(min(row[2], row[3]) - row[0] for row in found)
    return Finding(
        over > 0.15 and ahead > 0 and wide > best,
        f"means of 5 seeds: one pass {one:.2f}; best of 4 by the head (12 messages) {best:.2f}; guided beam of 4 "
        f"candidates (12 messages) {narrow:.2f}, ahead by at least {ahead:.2f}; of width 2 with 2 candidates (10 "
        f"messages) {wide:.2f}",
    )
