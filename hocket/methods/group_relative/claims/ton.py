"""TON's claims."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, say
from hocket.lab.toys.instances import LEFT, WORK, WorkOrGuess, by_instance, held, nothing
from hocket.lab.toys.recorded_answers import line, shaped
from hocket.lab.toys.training import length, on, starting, trained
from hocket.lab.world import Answer
from hocket.methods.group_relative.ton import TON, TON_SFT, DroppedThoughts
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Trajectory, Turn

claim = Claims("ton", "arXiv:2505.16854")


@claim("the format accepts an empty thought, and no broken one")
def the_format_accepts_an_empty_thought_and_no_broken_one() -> Finding:
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
def about_half_of_the_demonstrations_lose_their_thought_the_same() -> Finding:
    said, rounds, zeros = "<think>12 + 5 = 17</think><answer>17</answer>", list[list[str]](), torch.zeros(1).numpy()
    numbers = set[tuple[int, int]]()

    async def play(asked: Sequence[Assignment]) -> list[Trajectory]:
        numbers.update((one.first, one.samples) for one in asked)
        rounds.append([one.scenario.metadata["demonstration"] for one in asked])
        parts = zip(asked, rounds[-1], strict=True)
        return [Trajectory(one.scenario, [Turn("p", "p", zeros, zeros, text=text)]) for one, text in parts]

    async def score(trajectories: Sequence[Trajectory]) -> None:
        return None

    asked = [Assignment(Scenario(str(n), "?", "17", {"demonstration": said}), first=3) for n in range(2000)]
    for recipe in (TON_SFT, TON_SFT, TON_SFT.but({"rollout.share": 0.2})):
        asyncio.run(recipe.rollout.collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(5)))
    dropped, whole = (rounds[0].count(text) / 2000 for text in ("<think></think><answer>17</answer>", said))
    holds = abs(dropped - 0.5) < 0.04 and dropped + whole == 1.0 and rounds[0] == rounds[1] and numbers == {(3, 1)}
    listed = Scenario("s", "?", "17", {"demonstration": [{"role": "assistant", "content": said}]})
    holds &= abs(rounds[2].count(said) / 2000 - 0.8) < 0.04
    holds &= isinstance(TON_SFT.rollout, DroppedThoughts) and TON_SFT.rollout.shown(listed, drop=True) == listed
    return Finding(holds, say(demonstrations=2000, with_an_empty_thought=dropped, whole=whole, again="the same"))


def scratched(told: Mapping[str, Any], answer: Answer) -> float:
    """Left is right on the easy question, and on the hard one after three pieces of work; else what nobody knows."""
    return float(answer[-1] == (LEFT if told["question"] == 0 or len(answer) > 3 else told["holds"]))


WORLD = WorkOrGuess(
    *(2, 3, 7, nothing),
    correct=lambda question, answer: fmean(scratched(held(2 * question + n), answer) for n in range(2)),
    context="position",
    count=4,
    about=held,
)


def thinking(skipped: float) -> list[tuple[float, ...]]:
    """Skips of easy and of hard items, accuracy and length after 60 steps, each by seed."""
    # What supervised learning leaves of demonstrations of which a share `skipped` has an empty thought.
    odds = [[work, 0.8 * (1 - work), 0.2 * (1 - work)] for work in (1 - skipped, 0.97, 0.97, 0.1, 0.1, 0.1, 0.1)]
    start = starting({(question, (WORK,) * place): odds[place] for question in range(2) for place in range(7)})
    rows = []
    for one in trained(WORLD, TON.but(rewards=(by_instance(scratched),)), 60, start=start):
        skips = [on(q, one, lambda _, answer: float(len(answer) == 1)) for q in (0, 1)]
        rows.append((*skips, one.success(), fmean(length(q, one) for q in (0, 1))))
    return list(zip(*rows, strict=True))


@claim(
    "after thought dropout easy items are answered at once and hard ones thought about; without it skips stay rare",
    slow=True,
)
def after_thought_dropout_easy_items_are_answered_at_once_and_hard() -> Finding:
    (easy, hard, right, size), always = thinking(0.5), thinking(0.01)
    holds = min(easy) > 0.8 and max(hard) < 0.2 and fmean(right) >= fmean(always[2]) - 0.01
    holds &= max(size) < min(always[3]) - 0.5 and max(always[0] + always[1]) < 0.1
    names = ("skips_of_easy_items", "of_hard_ones", "accuracy", "length")
    after, without = (dict(zip(names, map(fmean, side), strict=True)) for side in ((easy, hard, right, size), always))
    return Finding(holds, f"60 steps, means of 5 seeds: {say(after_dropout=after, without=without)}")


claim.shipped(TON_SFT, "rollout")
claim.shipped(TON, "shaping")
