"""Rows about calling tools: OTC, SEM, GCPO."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch

from hocket.checks.check import Check, Finding
from hocket.checks.rewarded import SEEDS, apart, document, line
from hocket.checks.toys import Instances, Verdict, WorkOrGuess, bench
from hocket.keys import Key
from hocket.lab import Answer, Bench, Tabular
from hocket.lab.bench import Player
from hocket.microscope import Reading
from hocket.recipe import Recipe
from hocket.recipes.group_relative import GRPO
from hocket.recipes.length_and_tools import GCPO_GEOMETRYZERO, OTC, SEM
from hocket.rewards import ContrastBonus, SearchTable
from hocket.rewards.tool_calls import contrast_sign, efficiency
from hocket.signals import returns
from hocket.stages import Reward
from hocket.types import Assignment, Scenario, Trajectory, Turn

# ---------------------------------------------------------------- OTC


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


# ---------------------------------------------------------------- SEM


def spoken(text: str, answer: str = "7") -> Trajectory:
    """One attempt that says `text` about a question whose answer is known."""
    zeros = torch.zeros(1).numpy()
    turn = Turn(agent="policy", policy="policy", observation=zeros, action=zeros, text=text)
    return Trajectory(Scenario("s", "?", answer), [turn])


def table_order() -> Finding:
    """The table orders the six cases of guess, search and answer; broken forms earn 0."""
    cases = {
        "right at once": "<answer>7</answer>",
        "right after a needed search": "<answer>3</answer><search>x</search><answer>7.0</answer>",
        "right after a needless search": "<answer>7</answer><search>x</search><answer>7</answer>",
        "wrong after a needed search": "<answer>3</answer><search>x</search><answer>4</answer>",
        "wrong at once": "<think>hm</think><answer>3</answer>",
        "wrong after a needless search": "<answer>7</answer><tool_call>x</tool_call><answer>3</answer>",
    }
    broken = ["", "7", "<search>x</search><answer>7</answer>", "<answer>7</answer><search>x</search>"]
    table = SearchTable()
    earned = asyncio.run(table([spoken(text) for text in cases.values()], key=Key.of(0)))
    bad = asyncio.run(table([spoken(text) for text in broken], key=Key.of(0)))
    values = [float(value or 0.0) for value in earned]
    falls = all(a > b for a, b in itertools.pairwise(values))
    return Finding(falls and not any(bad), "; ".join(f"{n} {v:g}" for n, v in zip(cases, values, strict=True)))


@dataclass(frozen=True)
class Index(Instances):
    """Guess one of four values, then stop (0, 1) or search (2, 3); after a search the final answer is the index's.

    The value of key 0 is known: always 0. Key 1 holds any of the four, which nobody can know.
    """

    def said(self, told: Mapping[str, Any], answer: Answer) -> str:
        """The response in words."""
        guess = f"<answer>{answer[0]}</answer>"
        return f"{guess}<search>key</search><answer>{told['answer']}</answer>" if searched(answer) else guess


def searched(answer: Answer) -> bool:
    """Whether an answer of the index world searches."""
    return answer[1] >= 2


def index() -> Index:
    """Two keys, four instances of each."""

    def chance(question: int, answer: Answer) -> float:
        return 1.0 if searched(answer) else (float(answer[0] == 0) if question == 0 else 0.25)

    return Index(
        questions=2,
        tokens=4,
        horizon=2,
        reward=lambda question, answer: 0.0,
        correct=chance,
        count=8,
        about=lambda number: {"question": number // 4, "answer": "0" if number < 4 else str(number % 4)},
    )


@dataclass(frozen=True)
class Looked(Reward):
    """A search reward on the words that the index world gives an attempt."""

    world: Index
    table: SearchTable
    flat: float | None = None
    name: str = "search"
    weight: float = 1.0
    outside = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.judge(trajectory) for trajectory in trajectories]

    def judge(self, trajectory: Trajectory) -> float | None:
        """What the table, or a verdict with a flat cost per search, gives."""
        answer = tuple(int(token) for token in trajectory.turns[0].action)
        text = self.world.said(trajectory.scenario.metadata, answer)
        if self.flat is None:
            return self.table.judge(spoken(text, trajectory.scenario.answer))
        return float(text.endswith(f"<answer>{trajectory.scenario.answer}</answer>")) - self.flat * searched(answer)


def searches(question: int, made: Bench) -> float:
    """The exact rate of searching for one kind of key."""
    answers = list(made.world.answers())
    with torch.no_grad():
        return float(made.policy.expectation(question, [float(searched(answer)) for answer in answers]))


def searches_when_needed() -> Finding:
    """Known keys are not searched and unknown ones are (gap above 0.6), as accurate as always searching."""
    world, rows = index(), {}

    def start(policy: Tabular) -> None:
        """The known key's value was seen often: it is guessed right nine times of ten."""
        for question in range(2):
            first = [0.91, 0.03, 0.03, 0.03] if question == 0 else [0.25] * 4
            policy.logits[policy.row(question, ())] = torch.tensor(first, dtype=torch.float64).log()

    for name, reward in (
        ("sem", Looked(world, SearchTable())),
        ("flat", Looked(world, SearchTable(), flat=0.1)),
        ("costly", Looked(world, SearchTable(), flat=0.6)),
    ):
        runs = [bench(world, SEM.but(rewards=(reward,)), seed, 50, start=start, lr=0.1) for seed in SEEDS]
        rows[name] = [(searches(0, b), searches(1, b), b.success()) for b in runs]
    gaps = [unknown - known for known, unknown, _ in rows["sem"]]
    always = 1.0
    holds = min(gaps) > 0.6 and min(right for _, _, right in rows["sem"]) >= always - 0.02
    told = {name: tuple(fmean([row[k] for row in found]) for k in range(3)) for name, found in rows.items()}
    said = "; ".join(f"{n}: {a:.3f} known, {b:.3f} unknown, accuracy {c:.3f}" for n, (a, b, c) in told.items())
    return Finding(
        holds, f"search rates after 50 steps, 5 seeds: {said}; smallest gap {min(gaps):.3f} (flat costs 0.1, 0.6)"
    )


# ---------------------------------------------------------------- GCPO


def mask_signs() -> Finding:
    """The mask has the right sign and is 0 inside the band."""
    shares = torch.arange(0, 9, dtype=torch.float64) / 8
    with_it, without = torch.meshgrid(shares, shares, indexing="ij")
    found = contrast_sign(with_it, without, 0.1)
    wanted = torch.tensor([[(a > o + 0.1) - (a < o - 0.1) for o in shares.tolist()] for a in shares.tolist()])
    row = {"group": "g", "logp": [-1.0], "text": "<tool_call>", "scores": {"reward": 0.0}}
    bonus = ContrastBonus(weight=0.5)
    seen = [
        float(returns(bonus(Reading(document([{**row, "scores": {"reward": 0.0}, "info": told}])).batch))[0])
        for told in (
            {"accuracy_with": 0.75, "accuracy_without": 0.25},
            {"accuracy_with": 0.25, "accuracy_without": 0.75},
            {"accuracy_with": 0.55, "accuracy_without": 0.5},
        )
    ]
    holds = bool((found == wanted).all()) and apart(seen, [0.5, -0.5, 0.0]) < 1e-12
    return Finding(holds, f"81 pairs of accuracies in eighths; a rollout that constructs gets {line(seen)}")


TOOL = 0


def scratch() -> Instances:
    """A scratch tool helps on the first kind of problem and hurts on the second: use it or not, then answer."""

    def chance(question: int, answer: Answer) -> float:
        used = answer[0] == TOOL
        return 0.9 if used == (question == 0) else 0.5

    return Instances(
        questions=2,
        tokens=2,
        horizon=2,
        reward=lambda question, answer: 0.0,
        correct=chance,
        context="position",
        info=lambda question, answer: {"constructs": answer[0] == TOOL},
        count=20,
        about=lambda number: {"question": number // 10, "luck": number % 10},
    )


def scratched(told: Mapping[str, Any], answer: Answer) -> float:
    """Right in nine of ten instances where the tool helps and is used, or hurts and is not; else in five."""
    fits = (answer[0] == TOOL) == (told["question"] == 0)
    # Which instances are solved differs between the two answers, so that no instance gives the rule away.
    luck = (told["luck"] + 5 * answer[1]) % 10
    return float(luck < (9 if fits else 5))


class Obedient(Player):
    """A player whose policy does what it is told about the tool."""

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        rollout = GCPO_GEOMETRYZERO.rollout
        orders = {getattr(rollout, "use", ""): (TOOL,), getattr(rollout, "avoid", ""): (1 - TOOL,)}
        told = [replace(one, prefix=orders.get(one.hint or "", ())) for one in assignments]
        return await super().play(told, key=key)


def tool_rates(recipe: Recipe, seed: int, steps: int) -> list[float]:
    """How often the tool is used on either kind of problem after training."""
    world = scratch()
    made = Bench(world, recipe.but(rewards=(Verdict(scratched),)), seed=seed, steps=steps, prompts=world.count)
    made.parts.player = Obedient(world, {"policy": made.policy, "reference": made.reference})
    made.run(steps, every=steps + 1)
    answers = list(world.answers())
    with torch.no_grad():
        used = [float(answer[0] == TOOL) for answer in answers]
        return [float(made.policy.expectation(question, used)) for question in range(2)]


def tool_where_it_helps() -> Finding:
    """The tool is used where it helps and not where it hurts; an unconditional bonus drives both up."""
    # Formats and lengths are equal in this world; the bonus is what is compared.
    plain = GCPO_GEOMETRYZERO.but({"shaping.0.weight": 1.0})
    found = {
        name: [tool_rates(plain.but({"shaping.0.unconditional": free}), seed, 30) for seed in SEEDS]
        for name, free in (("masked", False), ("unconditional", True))
    }
    helped, hurt = ([row[k] for row in found["masked"]] for k in (0, 1))
    both = [min(row) for row in found["unconditional"]]
    return Finding(
        min(helped) > 0.8 and max(hurt) < 0.2 and min(both) > 0.8,
        f"30 steps, 5 seeds: tool use {line(helped)} where it helps, {line(hurt)} where it hurts; with a bonus that "
        f"asks nothing at least {line(both)} on both",
    )


_OTC, _SEM, _GCPO = "arXiv:2504.14870", "arXiv:2505.07903; the numbers are our choice", "arXiv:2506.07160"

CHECKS = (
    Check("otc", "r_tool is 1 at m = n, falls strictly for m > n and tends to 0", efficiency_shape, _OTC),
    Check("otc", "r_tool is the paper's formula", efficiency_is_the_papers, _OTC),
    Check(
        "otc",
        "no right answer has fewer calls than the n it is measured by, records earn most, wrong answers earn 0",
        records_are_remembered,
        _OTC,
    ),
    Check(
        "otc",
        "calls per right answer fall by 30 percent or more against correctness alone, accuracy within 2 points",
        fewer_calls,
        _OTC,
        slow=True,
    ),
    Check("sem", "the table orders the six cases of guess, search and answer; broken forms earn 0", table_order, _SEM),
    Check(
        "sem",
        "known keys are not searched and unknown ones are (gap above 0.6), as accurate as always searching",
        searches_when_needed,
        _SEM,
        slow=True,
    ),
    Check("gcpo-geometryzero", "the mask has the right sign and is 0 inside the band", mask_signs, _GCPO),
    Check(
        "gcpo-geometryzero",
        "the tool is used where it helps and not where it hurts; an unconditional bonus drives both up",
        tool_where_it_helps,
        _GCPO,
        slow=True,
    ),
)
