"""What mixed-r1 claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.toys.judged_answers import SEEDS, trained
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.mixed_r1 import MIXED_R1, bag_similarity, box_overlap, near_number, overlap
from hocket.types import Scenario

claim = Claims("mixed-r1", "arXiv:2505.24164")


@claim("BMAS is 1 for equal bags of words, symmetric, and blind to their order; IoU is that of boxes done by hand")
def similarities_by_hand() -> Finding:
    """BMAS on shuffled and swapped texts, boxes and numbers whose grades are known."""
    rng = Key.of(0).derive("bags").numpy()
    words = ["the", "red", "box", "lies", "left", "of", "a", "small", "green", "table", "near", "two", "chairs"]
    worst = 0.0
    for _ in range(50):
        one, other = (" ".join(rng.choice(words, int(rng.integers(1, 8)))) for _ in range(2))
        mixed = " ".join(rng.permutation(one.split()))
        gaps = (
            bag_similarity(one, mixed) - 1,
            bag_similarity(one, other) - bag_similarity(other, one),
            bag_similarity(one, other) - bag_similarity(mixed, other),
        )
        worst = max(worst, *map(abs, gaps))
    boxes = {
        ((0, 0, 2, 2), (1, 1, 3, 3)): 1 / 7,
        ((0, 0, 4, 4), (1, 1, 3, 3)): 4 / 16,
        ((0, 0, 1, 1), (1, 0, 2, 1)): 0.0,
        ((1, 2, 5, 4), (1, 2, 5, 4)): 1.0,
        ((0, 0, 3, 1), (1, 0, 4, 1)): 0.5,
        ((2, 2, 2, 5), (0, 0, 9, 9)): 0.0,
    }
    for (first, second), known in boxes.items():
        worst = max(worst, abs(overlap(first, second) - known), abs(box_overlap(f"[{first}]", second) - known))
    numbers = [near_number("it is 104", 100), near_number("105.1", 100), near_number("about 9.6", "10")]
    holds = worst < 1e-12 and numbers == [1.0, 0.0, 1.0]
    return Finding(holds, f"50 pairs of texts and {len(boxes)} of boxes: largest gap {worst:.1e}")


MIXTURE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("match", "7", ("5", "6", "7", "8", "12", "70")),
    ("match", "12", ("5", "6", "7", "8", "12", "70")),
    ("box", "0 0 4 4", ("0 0 4 4", "0 0 4 2", "2 2 6 6", "9 9 10 10", "1 1 4 4", "0 4")),
    ("box", "2 2 6 6", ("0 0 4 4", "0 0 4 2", "2 2 6 6", "9 9 10 10", "1 1 4 4", "0 4")),
    ("open", "a red box", ("a red box", "box red a dog", "the green box", "two dogs run", "a red fox", "")),
    ("open", "two dogs run", ("a red box", "box red a dog", "the green box", "two dogs run", "a red fox", "")),
    ("chart", "40", ("41", "45", "4", "400", "-40", "many")),
)
"""Kind, reference and the answers a policy can give."""


@dataclass(frozen=True)
class Mixture(World):
    """Questions of several kinds, each with a reference answer."""

    def scenario(self, split: Any, number: int) -> Scenario:
        kind, reference, _ = MIXTURE[number]
        told = replace(super().scenario(split, number), answer=reference)
        return replace(told, metadata={**told.metadata, "reward": kind})


def graded(question: int, answer: Answer) -> float:
    """The grade that the question's own reward gives."""
    kind, reference, options = MIXTURE[question]
    route: Any = next(route for route in MIXED_R1.rewards if route.name == kind)
    return float(route.graded(options[answer[0]], reference))


@claim("one policy on a mixture of tasks loses no accuracy on any, and each task's reward is reported apart", slow=True)
def mixture_loses_nothing() -> Finding:
    """One policy on all kinds at once, against one per question with as many updates."""
    world = Mixture(questions=len(MIXTURE), tokens=6, horizon=1, reward=graded, text=lambda q, a: MIXTURE[q][2][a[0]])
    kinds = list(dict.fromkeys(kind for kind, _, _ in MIXTURE))
    together: dict[str, list[float]] = {kind: [] for kind in kinds}
    alone: dict[str, list[float]] = {kind: [] for kind in kinds}
    worst = 0.0
    for seed in SEEDS:
        bench = trained(world, MIXED_R1, seed, 60)
        for kind in kinds:
            mine = [q for q, row in enumerate(MIXTURE) if row[0] == kind]
            single = trained(world, MIXED_R1.but({"curriculum": _Only(tuple(mine))}), seed, 60, prompts=len(mine))
            together[kind].append(bench.expected(_of(mine)) * len(MIXTURE) / len(mine))
            alone[kind].append(single.expected(_of(mine)) * len(MIXTURE) / len(mine))
        last = bench.step()
        for kind in kinds:
            given: list[Any] = [
                one.scores[kind].value for one in last.trajectories if one.scenario.metadata["reward"] == kind
            ]
            worst = max(worst, abs(last.metrics[f"reward/{kind}"] - sum(given) / len(given)))
    saw = ", ".join(f"{kind} {fmean(together[kind]):.2f} ({fmean(alone[kind]):.2f})" for kind in kinds)
    lost = max(fmean(alone[kind]) - fmean(together[kind]) for kind in kinds)
    saw = f"mixed (alone), means of 5 seeds: {saw}; each kind's reported reward is off by at most {worst:.0e}"
    return Finding(lost < 0.03 and min(map(fmean, together.values())) > 0.8 and worst < 1e-9, saw)


@dataclass(frozen=True)
class _Only:
    """The same few scenarios in every step."""

    numbers: tuple[int, ...]
    prompts: int = 1

    def __call__(self, task: Any, asked: int, count: int, ledger: Any, key: Key) -> list[Scenario]:
        return [task.scenario("train", self.numbers[(asked + n) % len(self.numbers)]) for n in range(count)]


def _of(questions: Sequence[int]) -> Callable[[int, Answer], float]:
    return lambda q, a: graded(q, a) if q in questions else 0.0
