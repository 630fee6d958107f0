"""What otc claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hocket.core.signals import returns
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading
from hocket.lab.policy import Tabular
from hocket.lab.toys.rewarded import SEEDS, document, line
from hocket.lab.toys.toys import Instances, Verdict, WorkOrGuess, bench
from hocket.lab.world import Answer
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.otc import OTC, efficiency

claim = Claims("otc", "arXiv:2504.14870")


@claim("r_tool is 1 at m = n, falls strictly for m > n and tends to 0")
def efficiency_shape() -> Finding:
    """R_tool is 1 at m = n, falls strictly for m > n and tends to 0."""
    calls = torch.arange(0, 2000, dtype=torch.float64)
    saw, holds = [], True
    for fewest in (0, 1, 2, 5):
        worth = efficiency(calls, torch.full_like(calls, fewest), smooth=4.0)
        after = worth[fewest:]
        holds &= abs(float(worth[fewest]) - 1) < 1e-12
        holds &= bool((after[1:] < after[:-1]).all()) and 0 < float(after[-1]) < 0.02
        saw.append(f"n={fewest}: {float(worth[fewest]):.3f}, {float(worth[fewest + 1]):.3f} .. {float(after[-1]):.4f}")
    return Finding(holds, "; ".join(saw) + " (at n, n + 1 and 1999 calls)")


@claim("r_tool is the paper's formula")
def efficiency_is_the_papers() -> Finding:
    """R_tool is the paper's formula."""
    worst = 0.0
    for n, m in itertools.product(range(6), range(30)):
        if n > 0:
            f = 2 * n * m / (m + n)
            wanted = math.sin(math.pi * f / (2 * n))
        else:
            wanted = math.cos(math.pi * m / (2 * m + 4)) if m else 1.0
        found = efficiency(torch.tensor([float(m)]).double(), torch.tensor([float(n)]).double(), 4.0)
        worst = max(worst, abs(float(found) - wanted))
    return Finding(worst < 1e-12, f"largest difference over n < 6, m < 30: {worst:.1e}")


@claim("no right answer has fewer calls than the n it is measured by, records earn most, wrong answers earn 0")
def records_are_remembered() -> Finding:
    """No right answer has fewer calls than the n it is measured by, records earn most, wrong answers earn 0."""

    def group(calls: Sequence[int], verdicts: Sequence[int]) -> list[dict[str, Any]]:
        pairs = zip(calls, verdicts, strict=True)
        return [{"group": "g", "scores": {"reward": v}, "logp": [-1.0], "info": {"tool_calls": m}} for m, v in pairs]

    state, said, best, fewer, wrong = OTC.init(), [], True, False, 0.0
    for calls, verdicts in (
        ((3, 4, 0), (1, 1, 0)),
        ((2, 3, 1), (1, 1, 0)),
        ((5, 4, 9), (1, 1, 0)),
        ((0, 2, 1), (1, 0, 1)),
    ):
        batch, state = OTC.assess(Reading(document(group(calls, verdicts))).batch, state, {})
        value = returns(batch).tolist()
        n = state["shaping.0"]["fewest"]["g"]
        good = [m for m, v in zip(calls, verdicts, strict=True) if v]
        fewer |= min(good) < n
        best &= all(value[k] == max(value) for k, m in enumerate(calls) if verdicts[k] and m == min(good) == n)
        wrong = max(wrong, *(abs(r) for r, v in zip(value, verdicts, strict=True) if not v))
        said.append(f"n={n:g}: {line(value)}")
    holds = best and not fewer and wrong == 0 and n == 0
    return Finding(holds, f"calls 3,4,0 / 2,3,1 / 5,4,9 / 0,2,1 (wrong ones earn 0): {'; '.join(said)}")


CALL, GUESS_LEFT, GUESS_RIGHT = 0, 1, 2


def calculator() -> Instances:
    """Half of the questions need no call; the others hold left or right, which one call reveals."""

    def chance(question: int, answer: Answer) -> float:
        if answer[-1] == CALL:
            return 0.0
        return 1.0 if question == 0 or answer[0] == CALL else 0.5

    return WorkOrGuess(
        questions=2,
        tokens=3,
        horizon=6,
        reward=lambda question, answer: 0.0,
        correct=chance,
        context="position",
        info=lambda question, answer: {"tool_calls": sum(token == CALL for token in answer)},
        count=4,
        about=lambda number: {"question": number // 2, "holds": GUESS_LEFT + number % 2},
    )


def calculated(told: Mapping[str, Any], answer: Answer) -> float:
    """The verdict on an answer to the calculator's questions."""
    if answer[-1] == CALL:
        return 0.0
    return float(told["question"] == 0 or answer[0] == CALL or answer[-1] == told["holds"])


def eager(policy: Tabular) -> None:
    """A start that calls again with probability 0.6."""
    policy.logits.copy_(torch.tensor([0.6, 0.2, 0.2], dtype=torch.float64).log().expand_as(policy.logits))


@claim(
    "calls per right answer fall by 30 percent or more against correctness alone, accuracy within 2 points",
    slow=True,
)
def fewer_calls() -> Finding:
    """Calls per right answer fall by 30 percent or more against correctness alone, accuracy within 2 points."""
    world, rows = calculator(), {}
    for recipe in (GRPO, OTC):
        runs = [bench(world, recipe.but(rewards=(Verdict(calculated),)), seed, 60, start=eager) for seed in SEEDS]
        calls = [b.expected(lambda _, answer: sum(token == CALL for token in answer)) for b in runs]
        rows[recipe.name] = [(b.success(), m) for b, m in zip(runs, calls, strict=True)]
    plain, frugal = rows["grpo"], rows["otc"]
    saved = [1 - (b[1] / b[0]) / (a[1] / a[0]) for a, b in zip(plain, frugal, strict=True)]
    kept = [b[0] - a[0] for a, b in zip(plain, frugal, strict=True)]
    return Finding(
        min(saved) >= 0.3 and min(kept) >= -0.02,
        f"60 steps, 5 seeds: calls per right answer fall by {line(saved)}, accuracy changes by {line(kept)}; "
        f"GRPO calls {line([a[1] for a in plain])}, OTC {line([b[1] for b in frugal])}",
    )
