"""OTC's claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import torch

from hocket.core.signals import returns
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.instances import WORK, WorkOrGuess, by_instance, everywhere, held, nothing
from hocket.lab.toys.recorded_answers import answer, document, line, lines
from hocket.lab.toys.training import trained
from hocket.lab.world import Answer
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.otc import OTC, OTC_PPO, ToolEfficiency, efficiency

claim = Claims("otc", "arXiv:2504.14870")


@claim("r_tool is 1 at m = n, falls strictly for m > n and tends to 0")
def r_tool_is_1_at_m_n_falls_strictly_for_m_n_and_tends_to_0() -> Finding:
    calls, figures, holds = torch.arange(0, 2000, dtype=torch.float64), {}, True
    for fewest in (0, 1, 2, 5):
        after = efficiency(calls, torch.full_like(calls, fewest), smooth=4.0)[fewest:]
        holds &= abs(float(after[0]) - 1) < 1e-12 and bool((after.diff() < 0).all()) and 0 < float(after[-1]) < 0.02
        figures[f"n={fewest}"] = " ".join(f"{float(after[n]):.4f}" for n in (0, 1, -1))
    return Finding(holds, say(**figures) + " (at n, n + 1 and 1999 calls)")


@claim("r_tool is the paper's formula")
def r_tool_is_the_papers_formula() -> Finding:
    off = 0.0
    for n, m in itertools.product(range(6), range(30)):
        # f(m, n) = 2nm/(m + n) is mapped to sin(pi f / 2n); cos at n = 0.
        few = math.cos(math.pi * m / (2 * m + 4)) if m else 1.0
        wanted = math.sin(math.pi * (2 * n * m / (m + n)) / (2 * n)) if n else few
        worth = efficiency(torch.tensor([float(m)]).double(), torch.tensor([float(n)]).double(), 4.0)
        off = max(off, abs(float(worth) - wanted))
    return below(1e-12, largest_difference_over_n_below_6_and_m_below_30=off)


@claim("no right answer has fewer calls than the n it is measured by, records earn most, wrong answers earn 0")
def no_right_answer_has_fewer_calls_than_the_n_it_is_measured_by() -> Finding:
    state, shown, holds = OTC.init(), [], True
    right = {(3, 4, 0): (1, 1, 0), (2, 3, 1): (1, 1, 0), (5, 4, 9): (1, 1, 0), (0, 2, 1): (1, 0, 1)}
    for calls, verdicts in right.items():
        rows = [answer(v, 1, info={"tool_calls": m}) for m, v in zip(calls, verdicts, strict=True)]
        batch, state = OTC.compute_credit(RecordedBatch(document(rows)).batch, state, {})
        value, n = returns(batch).tolist(), state["shaping.0"]["fewest"]["g"]
        good = min(m for m, v in zip(calls, verdicts, strict=True) if v)
        holds &= good >= n
        for earned, m, v in zip(value, calls, verdicts, strict=True):
            holds &= (earned == max(value) or not m == good == n) if v else earned == 0
        shown.append(f"calls {calls} n={n:g}: {line(value)}")
    return Finding(holds and n == 0, f"{'; '.join(shown)} (wrong ones earn 0)")


@claim(
    "As shipped an answer is worth its verdict times r_tool, calls from their column or counted in the text; wrong "
    "answers set no record.",
    "derived",
)
def as_shipped_an_answer_is_worth_its_verdict_times_r_tool_calls() -> Finding:
    off, verdicts, made = list[float](), (1.0, 1.0, 0.0, 2.0), (2, 4, 1, 3)
    known = [answer(v, 1, info={"tool_calls": m}) for v, m in zip(verdicts, made, strict=True)]
    told = [answer(v, 1, text="<tool_call>{}</tool_call>" * m) for v, m in zip(verdicts, made, strict=True)]
    none = [answer(1.0, 1, text=""), answer(1.0, 1, text="<tool_call>")]
    for recipe, fewest in ((OTC, 2), (OTC_PPO, 0)):
        shaping = recipe.shaping[0]
        assert isinstance(shaping, ToolEfficiency)
        for rows, calls in ((known, made), (told, made), (none, (0, 1))):
            n = 0 if rows is none else fewest
            batch, _state = shaping(RecordedBatch(document(rows)).batch, shaping.init())
            few = [math.sin(math.pi * m / (m + n)) if n else math.cos(math.pi * m / (2 * m + 4)) for m in calls]
            right = [v * worth for v, worth in zip(verdicts if rows is not none else (1.0, 1.0), few, strict=True)]
            off += [abs(a - b) for a, b in zip(returns(batch).tolist(), right, strict=True)]
    return below(1e-12, largest_difference=max(off))


claim.spares("otc-ppo: shaping.0.least = 20.0", "without groups nothing is remembered of right answers")
claim.spares("otc-ppo: shaping.0.least = 0.0", "without groups nothing is remembered of right answers")


def calls_of(question: int, answer: Answer) -> int:
    return sum(token == WORK for token in answer)


def calculated(told: Mapping[str, Any], answer: Answer) -> float:
    return float(answer[-1] != WORK and (told["question"] == 0 or answer[0] == WORK or answer[-1] == told["holds"]))


CALCULATOR = WorkOrGuess(
    # Half of the questions need no call (a piece of work); the others hold left or right, which one call reveals.
    *(2, 3, 6, nothing),
    correct=lambda q, answer: 0.0 if answer[-1] == WORK else 1.0 if q == 0 or answer[0] == WORK else 0.5,
    context="position",
    info=lambda question, answer: {"tool_calls": calls_of(question, answer)},
    count=4,
    about=held,
)


@claim(
    "calls per right answer fall by 30 percent or more against correctness alone, accuracy within 2 points", slow=True
)
def calls_per_right_answer_fall_by_30_percent_or_more_against() -> Finding:
    rates = []
    for recipe in (GRPO, OTC):
        # The start calls again with probability 0.6.
        made = trained(CALCULATOR, recipe.but(rewards=(by_instance(calculated),)), 60, start=everywhere(0.6, 0.2, 0.2))
        rates.append(([one.success() for one in made], [one.expected(calls_of) for one in made]))
    (plain, many), (ours, few) = rates
    saved = [1 - (f / o) / (m / p) for p, m, o, f in zip(plain, many, ours, few, strict=True)]
    kept = [o - p for p, o in zip(plain, ours, strict=True)]
    figures = lines(steps=60, saved_per_right_answer=saved, accuracy_changes_by=kept, calls_of_GRPO=many, OTC=few)
    return Finding(min(saved) >= 0.3 and min(kept) >= -0.02, figures)


claim.shipped(OTC_PPO, "shaping")
claim.shipped(
    OTC,
    "shaping",
    first={"recipe": "sft", "steps": 40, "task": "lessons:calculator"},
    settings={"curriculum.prompts": 8},
    sees=lambda run: {
        "calls": run.mean("tools/calls"),
        "taken off": run.mean("reward/mean") - run.mean("reward/shaped"),
    },
)

claim.learns(OTC, seeds=1)
claim.learns(OTC, seeds=1, metric=("tools/calls", -1))
