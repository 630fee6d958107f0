"""What hybrid-multi-aspect-reward claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.policy import Tabular
from hocket.lab.toys.many_objectives import SEEDS, span, trained
from hocket.lab.world import Answer, Graded, World, answer_of, question_of
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.hybrid_multi_aspect_reward import HYBRID_REWARD
from hocket.stages import Reward
from hocket.types import Trajectory

claim = Claims("hybrid-multi-aspect-reward", "arXiv:2510.05283")


END = 4
"""The token that ends an answer; its first token is what it claims."""


def claimed(question: int, answer: Answer) -> float:
    """Whether the first token is the question's number."""
    return float(answer[0] == question)


def fond_of_length(question: int, answer: Answer) -> float:
    """A reward model that likes long answers, and on question 1 a wrong one besides."""
    fooled = question == 1 and answer[0] == 2
    return 0.3 * len(answer) + (0.8 if fooled else 0.6 * claimed(question, answer))


@dataclass(frozen=True)
class HalfChecked(Reward):
    """A rule that knows the answers to questions 0 and 1 alone."""

    name: str = "correct"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        asked = [(question_of(one), answer_of(one)) for one in trajectories]
        return [claimed(question, answer) if question < 2 else None for question, answer in asked]


def ending(policy: Tabular) -> None:
    """Ends an answer more often than a uniform policy would."""
    policy.logits[:, END] += 1.0


@claim(
    "a reward model that likes long answers inflates length; with the rule, adherence and the length band "
    "length stays, and accuracy is higher where a rule exists and no lower elsewhere",
    slow=True,
)
def hybrid_keeps_length() -> Finding:
    """The reward model alone against rule, adherence (the answer is ended) and length band besides."""
    world = World(questions=4, tokens=5, horizon=5, end=END, reward=claimed, context="position")
    model = Graded("model", fond_of_length)
    rewards = (HalfChecked(), model, Graded("adherence", lambda q, a: float(a[-1] == END), 0.2))
    hybrid = HYBRID_REWARD.but({"shaping.0.longest": 3.0, "shaping.0.penalty": 1.0}, rewards=rewards)
    figures: dict[str, list[tuple[float, float, float]]] = {"model": [], "hybrid": []}
    start = Bench(world, GRPO, start=ending).reading().length
    for name, recipe in (("model", GRPO.but(rewards=(model,))), ("hybrid", hybrid)):
        for seed in SEEDS:
            bench = trained(world, recipe, seed, 80, start=ending)
            checked = 2 * bench.expected(lambda q, a: claimed(q, a) * float(q < 2))
            elsewhere = 2 * bench.expected(lambda q, a: claimed(q, a) * float(q >= 2))
            figures[name].append((bench.reading().length, checked, elsewhere))
    alone, both = (list(zip(*figures[name], strict=True)) for name in ("model", "hybrid"))
    saw = f"length from {start:.1f}: model alone {span(alone[0])}, hybrid {span(both[0])}; "
    saw += (
        f"accuracy where checked {span(alone[1])} and {span(both[1])}, elsewhere {span(alone[2])} and {span(both[2])}"
    )
    longer = min(alone[0]) > start + 1 and max(abs(length - start) for length in both[0]) < 1
    better = min(both[1]) > max(alone[1]) + 0.1 and fmean(both[2]) > fmean(alone[2]) - 0.05
    return Finding(longer and better, saw)
