"""What ace-rl claims."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

import torch

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.toys.judged_answers import SEEDS, span, trained
from hocket.lab.world import Answer, Graded, World
from hocket.methods.group_relative.ace_rl import (
    ACE_RL,
    Constraint,
    EndsWith,
    HasSection,
    InOrder,
    Mentions,
    WordRange,
    decompose,
    instruction,
    satisfied,
)
from hocket.rewards.judge import NoisyJudge
from hocket.stages import Reward
from hocket.types import Trajectory

claim = Claims("ace-rl", "")


LINES = ("alpha", "beta", "gamma:", "omega", "lorem", "ipsum")
"""What a line may say; a text has four."""


POOL: tuple[Constraint, ...] = (Mentions("lorem"), InOrder("alpha", "beta"), HasSection("gamma"), EndsWith("omega"))
CONCERNS = ((0,), (1,), (1, 2), (3,))
"""By line, the constraints that are looked at when it is written: so what is learnt carries over to other sets."""


SETS = tuple(chosen for size in range(1, 5) for chosen in itertools.combinations(range(len(POOL)), size))
TRAINED = tuple(chosen for number, chosen in enumerate(SETS) if number % 2 == 0)
UNSEEN = tuple(chosen for number, chosen in enumerate(SETS) if number % 2 == 1)
ORDER = TRAINED + UNSEEN


def asked_of(question: int) -> tuple[Constraint, ...]:
    """The checklist of a question."""
    return tuple(POOL[number] for number in ORDER[question])


def lines(question: int, answer: Answer) -> str:
    """The text."""
    return "\n".join(LINES[token] for token in answer)


def satisfied_share(question: int, answer: Answer) -> float:
    """The share of the question's constraints that are met."""
    verdicts = satisfied(lines(question, answer), asked_of(question))
    return sum(verdicts) / len(verdicts)


def reads(question: int, prefix: Answer) -> Hashable:
    """What the policy sees: which of the constraints that concern this line are asked, and what was written."""
    chosen = ORDER[question]
    return (
        len(prefix),
        tuple(number in chosen for number in CONCERNS[len(prefix)]),
        "alpha" in map(LINES.__getitem__, prefix),
    )


@dataclass(frozen=True)
class NoisyChecklist(Reward):
    """The satisfied share by a judge that reverses each verdict with probability `error`."""

    error: float
    name: str = "checklist"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        shares: list[float | None] = []
        for one in trajectories:
            verdicts = satisfied(one.text, one.scenario.metadata["constraints"])
            flips = key.derive(one.scenario.id, one.sample).numpy().random(len(verdicts)) < self.error
            shares.append(sum(said != bool(flip) for said, flip in zip(verdicts, flips, strict=True)) / len(verdicts))
        return shares


@claim(
    "trained on a checklist a policy meets more constraints than on one score of equal noise, also in unseen sets",
    "arXiv:2509.04903",
    slow=True,
)
def checklist_beats_one_score() -> Finding:
    """Verdicts per constraint against one verdict on the whole, both reversed in 20 of 100 cases."""
    world = World(
        questions=len(TRAINED),
        tokens=len(LINES),
        horizon=4,
        reward=satisfied_share,
        text=lines,
        context=reads,
        metadata=lambda q: {"constraints": asked_of(q)},
    )
    whole = NoisyJudge(Graded("truth", lambda q, a: float(satisfied_share(q, a) == 1.0)), 0.2, 0.2)
    found: dict[str, list[tuple[float, float]]] = {"checklist": [], "one score": []}
    for name, reward in (("checklist", NoisyChecklist(0.2)), ("one score", whole)):
        for seed in SEEDS:
            bench = trained(world, ACE_RL.but(rewards=(reward,)), seed, 60)
            answers = list(world.answers())
            with torch.no_grad():
                new = [
                    float(bench.policy.expectation(q, [satisfied_share(q, answer) for answer in answers]))
                    for q in range(len(TRAINED), len(ORDER))
                ]
            found[name].append((bench.success(), fmean(new)))
    seen = {name: span([run[0] for run in runs]) for name, runs in found.items()}
    new_sets = {name: [run[1] for run in runs] for name, runs in found.items()}
    saw = f"satisfied share on {len(TRAINED)} trained sets {seen['checklist']} (one score {seen['one score']}), "
    saw += f"on {len(UNSEEN)} unseen sets {span(new_sets['checklist'])} ({span(new_sets['one score'])})"
    ahead = min(new_sets["checklist"]) > max(new_sets["one score"]) + 0.05
    return Finding(ahead and fmean([a[0] - b[0] for a, b in zip(*found.values(), strict=True)]) > 0.05, saw)


@claim("the reward is the satisfied share and never falls with a constraint more")
def reward_is_the_share() -> Finding:
    """The recipe's own reward on generated instructions, and what meeting one more constraint does."""
    pool: tuple[Constraint, ...] = (*POOL, WordRange(3, 5), Mentions("beta"))
    rng = Key.of(0).derive("instructions").numpy()
    reward: Any = ACE_RL.rewards[0]
    right = rising = tried = 0
    for _ in range(200):
        chosen = tuple(pool[int(n)] for n in rng.permutation(len(pool))[: int(rng.integers(1, len(pool) + 1))])
        read = decompose(instruction(chosen))
        text = "\n".join(LINES[int(n)] for n in rng.integers(0, len(LINES), int(rng.integers(1, 7))))
        share = reward.share(text, {"constraints": read})
        met = [one(text) for one in chosen]
        right += read == chosen and share == sum(met) / len(met)
        if met[-1] and len(met) > 1:
            tried += 1
            rising += share >= reward.share(text, {"constraints": read[:-1]})
    return Finding(right == 200 and rising == tried > 20, f"{right} of 200 equal the share; {rising} of {tried} rise")
