"""Rows about what is asked and shown: a shrinking budget, thoughts left out of demonstrations."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from hocket.checks.check import Check, Finding
from hocket.checks.rewarded import SEEDS, apart, document, line
from hocket.checks.toys import LEFT, WORK, Instances, Verdict, WorkOrGuess, bench, length, on
from hocket.curriculum.budget import shrinking_budget
from hocket.keys import Key
from hocket.lab import Answer, Bench, Tabular
from hocket.lab.world import World
from hocket.microscope import Reading
from hocket.recipe import Recipe
from hocket.recipes.length_and_tools import TON, TON_SFT, TRAIN_LONG_THINK_SHORT
from hocket.rewards.length import budget_reward
from hocket.signals import returns
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Trajectory, Turn

# ---------------------------------------------------------------- Train Long, Think Short


def budgets_and_shape() -> Finding:
    """Budget schedule and reward shapes at their corners."""
    steps = [shrinking_budget(k, 256, 0.8, 10) for k in (0, 9, 10, 19, 20, 1000)]
    lengths = torch.tensor([0, 10, 20, 30, 40, 50])
    found = {
        shape: budget_reward(lengths, torch.tensor(20.0), shape).tolist() for shape in ("triangle", "flat", "linear")
    }
    holds = steps == [256, 256, 205, 205, 164, 1]
    holds &= apart(found["triangle"], [0, 0.5, 1, 0.5, 0, 0]) < 1e-12
    holds &= apart(found["flat"], [1, 1, 1, 0.5, 0, 0]) < 1e-12
    holds &= apart(found["linear"], [1, 0.75, 0.5, 0.25, 0, 0]) < 1e-12
    return Finding(
        holds,
        f"B_k of 256, 0.8, 10 at steps 0, 9, 10, 19, 20, 1000: {steps}; worth at 0, B/2, B, 1.5B, 2B: "
        f"{line(found['triangle'][:5])}",
    )


def budget_is_asked_for() -> Finding:
    """The prompt asks for the budget, and the reward is measured by it."""
    curriculum = TRAIN_LONG_THINK_SHORT.but(
        {"curriculum.prompts": 2, "curriculum.start": 10, "curriculum.interval": 1}
    ).curriculum
    world = World(questions=3, tokens=2, horizon=2, reward=lambda question, answer: 0.0)
    asked = [curriculum(world, at, 2, Ledger(), Key.of(1)) for at in (0, 2, 4)]
    said = [(one.metadata["budget"], str(one.prompt).splitlines()[-1]) for step in asked for one in step]
    rows = [
        {"group": f"g{n}", "logp": [-1.0] * n, "scores": {"reward": verdict}, "info": {"metadata": {"budget": 4}}}
        for n, verdict in ((2, 1.0), (4, 1.0), (8, 1.0), (4, 0.0))
    ]
    recipe = TRAIN_LONG_THINK_SHORT.but(shaping=TRAIN_LONG_THINK_SHORT.shaping[:1])
    batch, _ = recipe.assess(Reading(document(rows)).batch, recipe.init(), {})
    earned = returns(batch).tolist()
    holds = [budget for budget, _ in said] == [10, 10, 8, 8, 6, 6] and all(str(b) in text for b, text in said)
    return Finding(
        holds and apart(earned, [1.5, 2.0, 1.0, 1.0]) < 1e-12, f"{said[-1][1]!r}; returns at B = 4: {line(earned)}"
    )


END = 4


@dataclass(frozen=True)
class Hunt(Instances):
    """Find `need` treasures (token 0), one chance in four per token at first, and say that you are done (token 4)."""

    need: int = 4

    def finished(self, tokens: Sequence[int]) -> bool:
        return len(tokens) > 0 and (tokens[-1] == END or len(tokens) >= self.horizon)

    def answers(self) -> Iterator[Answer]:
        yield from ((*[1] * size, END) for size in range(self.horizon))  # A policy of positions alone: these name all.
        yield (1,) * self.horizon


def hunt(need: int) -> Hunt:
    """One hunt, asked twice a step."""
    return Hunt(
        questions=1,
        tokens=5,
        horizon=10,
        reward=lambda question, answer: 0.0,
        context="position",
        count=2,
        about=lambda number: {"question": 0},
        need=need,
    )


def hunted(made: Bench) -> tuple[float, float]:
    """The exact success rate and mean length of a policy of positions, by counting treasures."""
    world = made.world
    assert isinstance(world, Hunt)
    with torch.no_grad():
        shares = torch.softmax(made.policy.logits, -1).tolist()
    state, success, size = {0: 1.0}, 0.0, 0.0
    for place in range(world.horizon):
        share, following = shares[made.policy.row(0, (1,) * place)], dict[int, float]()
        for treasures, mass in state.items():
            success += mass * share[END] * (treasures >= world.need)
            size += mass * (place + 1) * (1.0 if place == world.horizon - 1 else share[END])
            for token in range(END):
                now = treasures + (token == 0)
                following[now] = following.get(now, 0.0) + mass * share[token]
        state = following
    return success, size


def wandering(policy: Tabular) -> None:
    """A start that seldom says it is done."""
    policy.logits.copy_(torch.tensor([0.23] * 4 + [0.08], dtype=torch.float64).log().expand_as(policy.logits))


def hunts(start: int, decay: float, need: int, steps: int, seeds: Sequence[int]) -> list[tuple[float, float]]:
    """Success and length after training under a budget, by seed."""
    world = hunt(need)

    def judge(told: Mapping[str, Any], answer: Answer) -> float:
        return float(answer[-1] == END and answer.count(0) >= need)

    recipe = TRAIN_LONG_THINK_SHORT.but(
        {"curriculum.start": start, "curriculum.decay": decay, "curriculum.interval": 14}, rewards=(Verdict(judge),)
    )
    return [hunted(bench(world, recipe, seed, steps, start=wandering, lr=0.1)) for seed in seeds]


def long_then_short() -> Finding:
    """Ending at the same budget, the shrinking one reaches higher accuracy, at a length close to it."""
    last = shrinking_budget(83, 7, 0.92, 14)
    shrinking, fixed = hunts(7, 0.92, 4, 84, SEEDS), hunts(last, 1.0, 4, 84, SEEDS)
    holds = min(a for a, _ in shrinking) > max(a for a, _ in fixed) and all(abs(n - last) <= 1.5 for _, n in shrinking)
    return Finding(
        holds,
        f"84 steps, 5 seeds, last budget {last}: shrinking from 7 {line([a for a, _ in shrinking])} at length "
        f"{line([n for _, n in shrinking])}; fixed {line([a for a, _ in fixed])} at {line([n for _, n in fixed])}",
    )


def padding_is_learnt() -> Finding:
    """Padding up to the budget is learnt, as the shape pays for it."""
    found = hunts(5, 1.0, 1, 50, SEEDS)
    padded = fmean([n for _, n in found])
    return Finding(
        padded > 4.0 and min(a for a, _ in found) > 0.95,
        f"a task that two tokens solve, budget 5: after 50 steps answers have {line([n for _, n in found])} tokens: "
        "the shape pays for padding up to the budget, and it is learnt",
    )


# ---------------------------------------------------------------- TON


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


_LONG, _TON = "arXiv:2508.08940, section 3", "arXiv:2505.16854"

CHECKS = (
    Check("train-long-think-short", "budget schedule and reward shapes at their corners", budgets_and_shape, _LONG),
    Check(
        "train-long-think-short",
        "the prompt asks for the budget, and the reward is measured by it",
        budget_is_asked_for,
        _LONG,
    ),
    Check(
        "train-long-think-short",
        "ending at the same budget, the shrinking one reaches higher accuracy, at a length close to it",
        long_then_short,
        _LONG,
        slow=True,
    ),
    Check(
        "train-long-think-short",
        "padding up to the budget is learnt, as the shape pays for it",
        padding_is_learnt,
        "the row",
        slow=True,
    ),
    Check("ton", "the format accepts an empty thought, and no broken one", empty_thoughts_pass, _TON),
    Check(
        "ton",
        "about half of the demonstrations lose their thought, the same ones every time",
        half_the_thoughts_are_dropped,
        _TON,
    ),
    Check(
        "ton",
        "after thought dropout easy items are answered at once and hard ones thought about; without it skips stay rare",
        thinks_when_it_pays,
        _TON,
        slow=True,
    ),
)
