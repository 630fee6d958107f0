"""What train-long-think-short claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading
from hocket.lab.policy import Tabular
from hocket.lab.toys.rewarded import SEEDS, apart, document, line
from hocket.lab.toys.toys import Instances, Verdict, bench
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.train_long_think_short import TRAIN_LONG_THINK_SHORT, budget_reward, shrinking_budget
from hocket.train.ledger import Ledger

claim = Claims("train-long-think-short", "arXiv:2508.08940, section 3")


@claim("budget schedule and reward shapes at their corners")
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


@claim("the prompt asks for the budget, and the reward is measured by it")
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


@claim("ending at the same budget, the shrinking one reaches higher accuracy, at a length close to it", slow=True)
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


@claim("padding up to the budget is learnt, as the shape pays for it", "the row", slow=True)
def padding_is_learnt() -> Finding:
    """Padding up to the budget is learnt, as the shape pays for it."""
    found = hunts(5, 1.0, 1, 50, SEEDS)
    padded = fmean([n for _, n in found])
    return Finding(
        padded > 4.0 and min(a for a, _ in found) > 0.95,
        f"a task that two tokens solve, budget 5: after 50 steps answers have {line([n for _, n in found])} tokens: "
        "the shape pays for padding up to the budget, and it is learnt",
    )
