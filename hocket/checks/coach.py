"""CPMobius: a coach paid for what its player gained, on a ladder of skills."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from hocket.checks.check import Check, Finding
from hocket.curriculum.invented import INSTRUCTION
from hocket.lab.talk import TalkBench
from hocket.recipe import Recipe
from hocket.objectives import EntropyBonus
from hocket.recipes.collective import CPMOBIUS
from hocket.rewards import LearningProgress
from hocket.types import Message, Scenario
from hocket.workflows.coach_player import CoachPlayer
from hocket.workflows.team import Reply, Team

SEEDS = range(5)
RUNGS = 12
"""Difficulties: a problem of difficulty d asks for the first d words of a chain, each learnt only on the way."""
LETTERS = tuple("abcdefgh")
KNOBS = tuple(f"level{d}" for d in range(1, RUNGS + 1))
CHAINS = 1
KNOWN = (0.97, *(0.35,) * 11)
"""How likely the right word of each rung is before training, once all words before are right."""


def chain(number: int) -> tuple[str, ...]:
    """The right words of a chain."""
    return tuple(LETTERS[(number + 2 * place + place // 2) % len(LETTERS)] for place in range(RUNGS))


@dataclass(frozen=True)
class Ladder(CoachPlayer):
    """The coach names a difficulty; the problem is one of the chains, up to that rung."""

    def problem(self, said: str, team: Team) -> str:
        number = team.key.derive("chain").word % CHAINS
        return f"chain {number} to {said}"

    def attempt(self, problem: str, team: Team) -> Coroutine[Any, Any, Reply]:
        words = replace(team.assignment.decoding, max_tokens=rung(problem))
        return team.player.fresh()(problem, state=problem, decoding=words)


def rung(problem: str) -> int:
    """How many words a problem asks for."""
    return int(problem.rsplit("level", 1)[-1])


def view(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """The player sees which chain it is, so that what is learnt for one difficulty serves all; the coach nothing."""
    words = str(messages[-1]["content"]).split()
    return ("chain", words[1]) if words[0] == "chain" else ("coach",)


def start(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """The player knows the first rungs better than the last, off the chain nothing; the coach's words are even."""
    seen = view(messages)
    if seen[0] == "coach":
        return dict.fromkeys(LETTERS, -30.0)
    right, off = chain(int(seen[1])), dict.fromkeys(KNOBS, -30.0)
    place = len(said)
    if said != right[:place] or place >= RUNGS:
        return off
    return off | {right[place]: math.log((len(LETTERS) - 1) * KNOWN[place] / (1 - KNOWN[place]))}


HELD_OUT = [Scenario("held out", f"chain 0 to {KNOBS[-1]}", answer=" ".join(chain(0)))]
"""What progress is measured on; see `bench`."""


def levels(bench: TalkBench) -> list[float]:
    """The player's exact accuracy by difficulty: the chance of the first d words of the chain."""
    found, right = [1.0], chain(0)
    for place, word in enumerate(right):
        words = bench.policies["player"].probabilities(f"chain 0 to {KNOBS[-1]}", said=right[:place])
        found.append(found[-1] * float(words[VOCABULARY.index(word)]))
    return found[1:]


def mass(bench: TalkBench) -> list[float]:
    """How likely the coach names each difficulty."""
    words = bench.policies["coach"].probabilities(INSTRUCTION)
    return [float(words[VOCABULARY.index(knob)]) for knob in KNOBS]


VOCABULARY = (*LETTERS, *KNOBS)
PACE, COACH_PACE, CURIOSITY = 3.0, 3.0, 0.2
KINDS = ("progress", "uniform", "adversary")


def bench(kind: str, seed: int) -> TalkBench:
    """A coach paid for progress, one that stays uniform, or one paid at once for the player's failures."""
    recipe = CPMOBIUS.but(
        {
            "rollout.samples": 1,
            "rollout.max_rounds": 1,
            "rollout.empty": True,
            "rewards": (LearningProgress(problems=1, momentum=0.7),),
            "update.method": "sgd",  # Adam's momentum would go on moving rows that are no longer asked for.
            "update.lr": PACE,
        }
    )
    curious = (EntropyBonus(coefficient=CURIOSITY),)
    coach = recipe.but({"update.lr": COACH_PACE, "regularisers": curious})
    if kind == "adversary":
        recipe = recipe.but({"rollout.low": 0.0, "rollout.high": 1.0, "rewards": ()})
        coach = recipe.but({"update.lr": COACH_PACE, "regularisers": curious})
    made: list[TalkBench] = []
    found = TalkBench(
        Ladder(solutions=12, alike=kind != "adversary", adversarial=kind == "adversary"),
        HELD_OUT,
        VOCABULARY,
        recipe,
        length=RUNGS,
        view=view,
        prior=start,
        recipes={"coach": coach},
        frozen=frozenset({"coach"} if kind == "uniform" else ()),
        measure=lambda played: fmean(levels(made[0])),
        prompts=1,
        seed=seed,
        capacity=16384,
    )
    made.append(found)
    seats = {**found.player.seats, "coach": replace(found.player.seats["coach"], decoding={"max_tokens": 1})}
    found.parts.player = replace(found.player, seats=seats)
    return found
