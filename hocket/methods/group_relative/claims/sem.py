"""What sem claims."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.policy import Tabular
from hocket.lab.toys.rewarded import SEEDS
from hocket.lab.toys.toys import Instances, bench
from hocket.lab.world import Answer
from hocket.methods.group_relative.sem import SEM, SearchTable
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory, Turn

claim = Claims("sem", "arXiv:2505.07903; the numbers are our choice")


def spoken(text: str, answer: str = "7") -> Trajectory:
    """One attempt that says `text` about a question whose answer is known."""
    zeros = torch.zeros(1).numpy()
    turn = Turn(agent="policy", policy="policy", observation=zeros, action=zeros, text=text)
    return Trajectory(Scenario("s", "?", answer), [turn])


@claim("the table orders the six cases of guess, search and answer; broken forms earn 0")
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


@claim("known keys are not searched and unknown ones are (gap above 0.6), as accurate as always searching", slow=True)
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
