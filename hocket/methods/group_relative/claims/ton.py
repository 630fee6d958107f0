"""TON's claims."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import EXACT, SEEDS, gap, say
from hocket.lab.policy import Tabular
from hocket.lab.toys.rewarded import line, shaped
from hocket.lab.toys.toys import LEFT, WORK, Verdict, WorkOrGuess, bench, length, on
from hocket.lab.world import Answer
from hocket.methods.group_relative.ton import TON, TON_SFT
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Trajectory, Turn

claim = Claims("ton", "arXiv:2505.16854")


@claim("the format accepts an empty thought, and no broken one")
def _() -> Finding:
    texts = {
        "<think>2 + 3 is 5</think><answer>5</answer>": 1.0,
        "<think></think><answer>5</answer>": 1.0,
        "<think>\n\n</think>\n<answer>5</answer>": 1.0,
        "<answer>5</answer>": 0.0,
        "<think>2 + 3<answer>5</answer>": 0.0,
        "<think>a</think>5": 0.0,
    }
    rows = [{"group": text, "logp": [-1.0], "scores": {"reward": 0.0}, "text": text} for text in texts]
    marks = [value / 0.5 for value in shaped(TON, rows)]
    return Finding(gap(marks, list(texts.values())) < EXACT, f"marks {line(marks)} for {len(texts)} forms")


@claim("about half of the demonstrations lose their thought, the same ones every time")
def _() -> Finding:
    said, rounds, zeros = "<think>12 + 5 = 17</think><answer>17</answer>", list[list[str]](), torch.zeros(1).numpy()

    async def play(asked: Sequence[Assignment]) -> list[Trajectory]:
        rounds.append([one.scenario.metadata["demonstration"] for one in asked])
        parts = zip(asked, rounds[-1], strict=True)
        return [Trajectory(one.scenario, [Turn("p", "p", zeros, zeros, text=text)]) for one, text in parts]

    async def score(trajectories: Sequence[Trajectory]) -> None:
        return None

    asked = [Assignment(Scenario(str(n), "?", "17", {"demonstration": said})) for n in range(4000)]
    for _ in range(2):
        asyncio.run(TON_SFT.rollout.collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(5)))
    dropped, whole = (rounds[0].count(text) / 4000 for text in ("<think></think><answer>17</answer>", said))
    holds = abs(dropped - 0.5) < 0.04 and dropped + whole == 1.0 and rounds[0] == rounds[1]
    return Finding(holds, say(demonstrations=4000, with_an_empty_thought=dropped, whole=whole, again="the same"))


def chance(question: int, answer: Answer) -> float:
    """Left is always right on the easy question; on the hard one after three pieces of work, and else by luck."""
    return float(answer[-1] == LEFT) if question == 0 or len(answer) > 3 else 0.5 * float(answer[-1] != WORK)


WORLD = WorkOrGuess(
    questions=2,
    tokens=3,
    horizon=7,
    reward=lambda question, answer: 0.0,
    correct=chance,
    context="position",
    count=4,
    about=lambda number: {"question": number // 2, "holds": LEFT + number % 2},
)


def scratched(told: Mapping[str, Any], answer: Answer) -> float:
    """The verdict on an answer to one of the instances."""
    return float(answer[-1] == (LEFT if told["question"] == 0 or len(answer) > 3 else told["holds"]))


def demonstrated(skipped: float) -> Callable[[Tabular], None]:
    """What supervised learning leaves of demonstrations of which a share `skipped` has an empty thought."""

    def start(policy: Tabular) -> None:
        for question, place in itertools.product(range(2), range(7)):
            work = 1 - skipped if place == 0 else (0.97 if place < 3 else 0.1)
            shares = torch.tensor([work, 0.8 * (1 - work), 0.2 * (1 - work)], dtype=torch.float64)
            policy.logits[policy.row(question, (WORK,) * place)] = shares.log()

    return start


def thinking(skipped: float) -> list[tuple[float, ...]]:
    """Skips of easy and of hard items, accuracy and length after 60 steps, each by seed."""
    recipe, rows = TON.but(rewards=(Verdict(scratched),)), []
    for seed in SEEDS:
        one = bench(WORLD, recipe, seed, 60, start=demonstrated(skipped))
        skips = [on(q, one, lambda _, answer: float(len(answer) == 1)) for q in (0, 1)]
        rows.append((*skips, one.success(), fmean(length(q, one) for q in (0, 1))))
    return list(zip(*rows, strict=True))


@claim(
    "after thought dropout easy items are answered at once and hard ones thought about; without it skips stay rare",
    slow=True,
)
def _() -> Finding:
    (easy, hard, right, size), always = thinking(0.5), thinking(0.01)
    holds = min(easy) > 0.8 and max(hard) < 0.2 and fmean(right) >= fmean(always[2]) - 0.01
    holds &= max(size) < min(always[3]) - 0.5 and max(always[0] + always[1]) < 0.1
    names = ("skips of easy items", "of hard ones", "accuracy", "length")
    columns = zip(names, (easy, hard, right, size), always, strict=True)
    saw = "; ".join(
        f"{name} {fmean(one):.3f} after dropout, {fmean(other):.3f} without" for name, one, other in columns
    )
    return Finding(holds, f"60 steps, means of 5 seeds: {saw}")
