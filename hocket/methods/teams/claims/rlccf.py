"""What rlccf claims."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch, Level
from hocket.core.casting import Shared
from hocket.core.packing import pack
from hocket.core.signals import REWARD
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import Prior, TalkBench
from hocket.methods.group_relative.ttrv import TTRV, VoteReward
from hocket.methods.teams.rlccf import RLCCF, CrowdReward, weighted_plurality
from hocket.recipe import Recipe
from hocket.types import Message, Scenario, Trajectory
from hocket.workflows.crowd_vote import CrowdVote

claim = Claims("rlccf", "derived")


SEEDS = range(5)
MAJORITY = TTRV.but(name="majority-vote", shaping=(VoteReward(vote="majority", entropy=0.0),))
"""One model, rewarded for its own most frequent answer."""


COIN = ("yes", "no")


def binomial(voters: int, chance: float) -> float:
    """The chance that more than half of the voters are right."""
    return sum(
        math.comb(voters, right) * chance**right * (1 - chance) ** (voters - right)
        for right in range(voters // 2 + 1, voters + 1)
    )


def _right(chance: float) -> Prior:
    """A voter that says yes with this chance."""
    return lambda messages, said: {"yes": math.log(chance / (1 - chance))}


@claim("one sample each of an odd crowd on two answers: the vote is as accurate as Condorcet's binomial sum")
def condorcet() -> Finding:
    """Every play of a crowd of tables: the workflow's answer and the reward's label against the binomial sum."""
    gaps, apart = [], 0
    for voters in (1, 3, 5):
        for chance in (0.55, 0.8):
            question = Scenario("q", "q", answer="yes")
            bench = TalkBench(CrowdVote(voters), [question], COIN, RLCCF, prior=_right(chance))
            found = 0.0
            for weight, played in bench.outcomes(question):
                (label,) = weighted_plurality({role: [said] for role, said in played.info["answers"].items()})
                apart += label != played.answer or rewarded([played], RLCCF) != [
                    [float(turn.text == label) for turn in played.turns]
                ]
                found += weight * float(label == "yes")
            gaps.append(abs(found - binomial(voters, chance)))
    return Finding(
        max(gaps) < 1e-12 and apart == 0,
        f"1, 3 and 5 voters right with 0.55 or 0.8: accuracy of the vote off the binomial sum by {max(gaps):.1e} at "
        f"most; {apart} plays in which workflow, label and rewards differ",
    )


def assessed(played: list[Trajectory], recipe: Recipe) -> Batch:
    """A batch with its rewards and credit; labels are the answers."""
    batch = pack(played)
    known = {"text": [one.text for one in played], "label": [one.info.get("answer", one.text) for one in played]}
    return recipe.assess(batch.but(info=known | dict(batch.info)), recipe.init(), {})[0]


def rewarded(played: list[Trajectory], recipe: Recipe) -> list[list[float]]:
    """The reward of each turn of each trajectory."""
    values = iter(assessed(played, recipe).scores[REWARD[Level.TURN]].values.tolist())
    return [[next(values) for _ in one.turns] for one in played]


@claim("ties go to a fixed rule", "chosen here")
def ties_are_fixed() -> Finding:
    """Equal votes go to the answer given first; self-consistency breaks what counts leave equal."""
    tied = weighted_plurality({"a": ["x", "y"], "b": ["y", "x"]})
    late = weighted_plurality({"a": [None, "y"], "b": ["x", None]})
    crowd = {"a": ["y", "y", "z"], "b": ["y", "z", "w"], "c": ["x", "x", "x"]}
    weighted, even = weighted_plurality(crowd), weighted_plurality(crowd, weigh=False)
    none = weighted_plurality({"a": [None, None]})
    return Finding(
        (tied, late, weighted, even, none) == (("x",), ("x",), ("x",), ("y",), ()),
        f"2:2 goes to {tied[0]}, 1:1 to the earlier sample's {late[0]}; of a sure model's 3 votes against 3 of two "
        f"divided ones {weighted[0]} wins, unweighted the earlier {even[0]}; nobody answering, nothing wins",
    )


@claim("with one model it is majority-vote self-reward")
def alone_it_is_majority_vote() -> Finding:
    """One voter: the same advantages as rewarding its own majority, and the same weights after training."""
    letters, questions = ("a", "b", "c"), [Scenario(f"q{n}", f"q{n}") for n in range(8)]
    shared = RLCCF.but({"cast": Shared(), "shaping": (CrowdReward(ties="all"),)})
    crowd, alone, looked = (
        TalkBench(CrowdVote(1), questions, letters, recipe, lr=0.1) for recipe in (shared, MAJORITY, RLCCF)
    )
    played = looked.play(4)
    given = [assessed(played, recipe).occurrences.advantage for recipe in (shared, MAJORITY)]
    gap = float((given[0] - given[1]).abs().max())
    one, everyone = (assessed(played, recipe).scores[REWARD[Level.TURN]].values for recipe in (RLCCF, shared))
    tied = {name for name, said in _by_question(played).items() if len(weighted_plurality({"m": said}, ties="all")) > 1}
    differ = {played[row].scenario.id for row in torch.nonzero(one != everyone).flatten().tolist()}
    for bench in (crowd, alone):
        bench.run(5)
    tables = [bench.policies["policy"].module.logits.detach() for bench in (crowd, alone)]
    apart, moved = float((tables[0] - tables[1]).abs().max()), float(tables[0].abs().max())
    return Finding(
        gap == 0 and differ == tied and apart == 0 and moved > 0.2,
        f"advantages of 32 answers differ from majority voting's by {gap}, weights after 5 steps by {apart} (moved by "
        f"{moved:.2f}); ties to the first instead of all changes the {len(tied)} tied questions alone",
    )


def _by_question(played: list[Trajectory]) -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    for one in played:
        found.setdefault(one.scenario.id, []).append(one.text)
    return found


ANSWERS = ("a", "b", "c", "d")
SLICES, EACH = 3, 2
SURE = {"right": 0.85, "trap": 0.05}
WEAK = {"right": 0.28, "trap": 0.42}
"""Chances of the right answer and of the model's own favourite wrong one, on the slice it was trained on and others."""


def _questions() -> list[Scenario]:
    """Each slice has its questions; the right answer is another word in each."""
    numbers = [(part, n) for part in range(SLICES) for n in range(EACH)]
    return [Scenario(f"{p} {n}", f"slice {p} question {n}", answer=ANSWERS[(p + n) % 4]) for p, n in numbers]


def _trained_on(own: int) -> Prior:
    """A model that learnt slice `own`: it is sure there, and elsewhere prefers a wrong answer of its own."""

    def logits(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
        words = str(messages[-1]["content"]).split()
        part, right = int(words[1]), (int(words[1]) + int(words[3])) % 4
        chances = SURE if part == own else WEAK
        trap = ANSWERS[(right + 1 + own) % 4]
        rest = (1 - sum(chances.values())) / 2
        known = {ANSWERS[right]: chances["right"], trap: chances["trap"]}
        return {word: math.log(known.get(word, rest)) for word in ANSWERS}

    return logits


VOTERS = tuple(f"voter_{n}" for n in range(1, SLICES + 1))
PRIORS = {name: _trained_on(place) for place, name in enumerate(VOTERS)}


RESULT = tuple[float, float, float, float]


@functools.cache
def trained(together: bool, seed: int, steps: int = 30) -> RESULT:
    """Exactly: accuracy of the vote and mean accuracy of the models, and on their weak slices, and their sureness."""
    questions = _questions()
    if together:
        crowd = TalkBench(CrowdVote(SLICES), questions, ANSWERS, RLCCF, prior=PRIORS, seed=seed, lr=0.2).run(steps)
        policies = [crowd.policies[name] for name in VOTERS]
    else:
        policies = []
        for place, name in enumerate(VOTERS):
            key = seed * SLICES + place
            bench = TalkBench(
                CrowdVote(1), questions, ANSWERS, MAJORITY, prior={"policy": PRIORS[name]}, seed=key, lr=0.2
            )
            policies.append(bench.run(steps).policies["policy"])
    return figures(np.array([[p.probabilities(str(q.prompt)).numpy() for q in questions] for p in policies]), questions)


def figures(chances: NDArray[np.float64], questions: list[Scenario]) -> RESULT:
    """From what each model answers `[models, questions, answers]`; in a vote of one sample each the first of ties."""
    vote, each, weak, sure = 0.0, [], [], []
    for place, question in enumerate(questions):
        right = ANSWERS.index(str(question.answer))
        for said in itertools.product(range(len(ANSWERS)), repeat=len(chances)):
            (label,) = weighted_plurality({str(model): [ANSWERS[word]] for model, word in enumerate(said)})
            chance = math.prod(chances[model, place, word] for model, word in enumerate(said))
            vote += chance * float(label == question.answer) / len(questions)
        own = int(str(question.prompt).split()[1])
        each += chances[:, place, right].tolist()
        weak += [float(chances[model, place, right]) for model in range(len(chances)) if model != own]
        sure += [float(chances[model, place].max()) for model in range(len(chances)) if model != own]
    return vote, fmean(each), fmean(weak), fmean(sure)


@claim(
    "models trained on different slices: vote and models end above separate majority votes, which collapse",
    "section 4",
    slow=True,
)
def crowd_beats_separate_majorities() -> Finding:
    before = figures(np.array([[_start(name, question) for question in _questions()] for name in VOTERS]), _questions())
    crowd, apart = ([trained(together, seed) for seed in SEEDS] for together in (True, False))
    low, high = (
        [min(column) for column in zip(*crowd, strict=True)],
        [max(column) for column in zip(*apart, strict=True)],
    )
    collapsed = min(one[3] for one in apart)
    return Finding(
        low[0] > high[0] + 0.1 and low[1] > high[1] + 0.1 and high[2] < 0.5 and collapsed > 0.9,
        f"vote and mean model before {before[0]:.2f}, {before[1]:.2f}; after 30 steps at worst of 5 seeds "
        f"{low[0]:.2f}, {low[1]:.2f} together, at best {high[0]:.2f}, {high[1]:.2f} apart; on slices a model did not "
        f"learn {before[2]:.2f} before, {low[2]:.2f} or more together, {high[2]:.2f} or less apart, with "
        f"{collapsed:.2f} or more of its answers alike",
    )


def _start(name: str, question: Scenario) -> list[float]:
    """What a model answers before training."""
    logits = PRIORS[name](({"role": "user", "content": question.prompt},), ())
    assert isinstance(logits, Mapping)
    return [math.exp(logits[word]) for word in ANSWERS]
