"""What ton claims."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading
from hocket.lab.policy import Tabular
from hocket.lab.toys.rewarded import SEEDS, apart, document, line
from hocket.lab.toys.toys import LEFT, WORK, Verdict, WorkOrGuess, bench, length, on
from hocket.lab.world import Answer
from hocket.methods.group_relative.ton import TON, TON_SFT
from hocket.recipe import Recipe
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Trajectory, Turn

claim = Claims("ton", "arXiv:2505.16854")


@claim("the format accepts an empty thought, and no broken one")
def empty_thoughts_pass() -> Finding:
    """The format accepts an empty thought, and no broken one."""
    texts = {
        "<think>2 + 3 is 5</think><answer>5</answer>": 1.0,
        "<think></think><answer>5</answer>": 1.0,
        "<think>\n\n</think>\n<answer>5</answer>": 1.0,
        "<answer>5</answer>": 0.0,
        "<think>2 + 3<answer>5</answer>": 0.0,
        "<think>a</think>5": 0.0,
    }
    rows = [{"group": t, "logp": [-1.0], "scores": {"reward": 0.0}, "text": t} for t in texts]
    batch, _ = TON.assess(Reading(document(rows)).batch, TON.init(), {})
    earned = [value / 0.5 for value in returns(batch).tolist()]
    return Finding(apart(earned, list(texts.values())) < 1e-12, f"marks {line(earned)} for {len(texts)} forms")


@claim("about half of the demonstrations lose their thought, the same ones every time")
def half_the_thoughts_are_dropped() -> Finding:
    """About half of the demonstrations lose their thought, the same ones every time."""
    said, seen = "<think>12 + 5 = 17</think><answer>17</answer>", []

    async def play(asked: Sequence[Assignment]) -> list[Trajectory]:
        shown = [one.scenario.metadata["demonstration"] for one in asked]
        seen.append(shown)
        zeros = torch.zeros(1).numpy()
        return [
            Trajectory(one.scenario, [Turn("p", "p", zeros, zeros, text=t)])
            for one, t in zip(asked, shown, strict=True)
        ]

    async def score(trajectories: Sequence[Trajectory]) -> None:
        return None

    asked = [Assignment(Scenario(str(n), "?", "17", {"demonstration": said})) for n in range(4000)]
    for _ in range(2):
        asyncio.run(TON_SFT.rollout.collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(5)))
    dropped = sum(text == "<think></think><answer>17</answer>" for text in seen[0]) / len(asked)
    whole = sum(text == said for text in seen[0]) / len(asked)
    return Finding(
        abs(dropped - 0.5) < 0.04 and dropped + whole == 1.0 and seen[0] == seen[1],
        f"of 4000 demonstrations {dropped:.3f} have an empty thought, the others are whole; the same again",
    )


def scratchpad() -> WorkOrGuess:
    """Left is always right on the easy question; on the hard one after three pieces of work, and else by luck."""

    def chance(question: int, answer: Answer) -> float:
        if question == 0 or len(answer) > 3:
            return float(answer[-1] == LEFT)
        return 0.5 * float(answer[-1] != WORK)

    return WorkOrGuess(
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
    """The verdict on an answer to one of the scratchpad's instances."""
    fixed = told["question"] == 0 or len(answer) > 3
    return float(answer[-1] == (LEFT if fixed else told["holds"]))


def demonstrated(skipped: float) -> Callable[[Tabular], None]:
    """What supervised learning leaves of demonstrations of which a share `skipped` has an empty thought."""

    def start(policy: Tabular) -> None:
        for question, place in itertools.product(range(2), range(7)):
            work = 1 - skipped if place == 0 else (0.97 if place < 3 else 0.1)
            shares = torch.tensor([work, 0.8 * (1 - work), 0.2 * (1 - work)], dtype=torch.float64)
            policy.logits[policy.row(question, (WORK,) * place)] = shares.log()

    return start


@claim(
    "after thought dropout easy items are answered at once and hard ones thought about; without it skips stay rare",
    slow=True,
)
def thinks_when_it_pays() -> Finding:
    """After thought dropout easy items are answered at once and hard ones thought about."""
    world, rows = scratchpad(), {}
    recipe: Recipe = TON.but(rewards=(Verdict(scratched),))
    for name, skipped in (("dropout", 0.5), ("always", 0.01)):
        runs = [bench(world, recipe, seed, 60, start=demonstrated(skipped)) for seed in SEEDS]
        skips = [[on(q, b, lambda _, answer: float(len(answer) == 1)) for q in (0, 1)] for b in runs]
        sizes = [fmean([length(q, b) for q in (0, 1)]) for b in runs]
        rows[name] = [(*skip, b.success(), n) for skip, b, n in zip(skips, runs, sizes, strict=True)]
    dropped, always = rows["dropout"], rows["always"]
    holds = min(r[0] for r in dropped) > 0.8 and max(r[1] for r in dropped) < 0.2
    holds &= fmean([r[2] for r in dropped]) >= fmean([r[2] for r in always]) - 0.01
    holds &= max(r[3] for r in dropped) < min(r[3] for r in always) - 0.5
    holds &= max(r[k] for r in always for k in (0, 1)) < 0.1

    def said(rows: Sequence[tuple[float, ...]]) -> str:
        skip, hard, right, size = (fmean([row[k] for row in rows]) for k in range(4))
        return f"skips {skip:.3f} easy, {hard:.3f} hard, accuracy {right:.3f}, length {size:.2f}"

    return Finding(holds, f"60 steps, means of 5 seeds: after dropout {said(dropped)}; without it {said(always)}")
