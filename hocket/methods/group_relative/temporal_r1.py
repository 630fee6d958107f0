"""Temporal-R1: GRPO on right choices and overlapping intervals, on scenarios whose rewards vary (arXiv:2506.01908).

`IntervalIoU` adds how far the interval that was named overlaps the true one; `Chosen` trains on the scenarios on which
the start model neither always succeeds nor always fails. Shown on intervals in text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hocket.core.keys import Key
from hocket.core.numerals import listed
from hocket.curriculum.random_order import Shuffled, permutation
from hocket.methods.base.grpo import GRPO
from hocket.rewards.opinions import Opinions
from hocket.rewards.verifiers import EXTRACTIONS, ExactMatch, Extraction, check_extraction, known_of
from hocket.stages import LedgerView, Reward, Task
from hocket.types import Scenario, Trajectory


@dataclass(frozen=True)
class Chosen(Shuffled):
    """Only the training scenarios `numbers`, shuffled anew in every pass; without any, all of them.

    Temporal-R1 (arXiv 2506.01908) trains on the scenarios that `variable` keeps: groups that are neither always right
    nor always wrong.
    """

    numbers: tuple[int, ...] = ()

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        if not self.numbers:
            return super().__call__(task, asked, count, ledger, key)
        return [task.scenario("train", self._chosen(asked + place, key)) for place in range(count)]

    def _chosen(self, position: int, key: Key) -> int:
        epoch, place = divmod(position, len(self.numbers))
        return self.numbers[int(permutation(key.derive("pass", epoch), len(self.numbers))[place])]


Interval = tuple[float, float]


def interval_iou(one: Interval, other: Interval) -> float:
    """`|one and other| / |one or other|` of two intervals of a line, in [0, 1]; 1 for equal ones, even of length 0.

    An interval that ends before it begins has no points.
    """
    if one == other:
        return 1.0 if one[0] <= one[1] else 0.0
    shared = max(0.0, min(one[1], other[1]) - max(one[0], other[0]))
    lengths = [max(0.0, end - start) for start, end in (one, other)]
    union = sum(lengths) - shared
    return shared / union if union > 0 else 0.0


@dataclass(frozen=True)
class IntervalIoU(Reward):
    """The temporal reward of Temporal-R1 (arXiv 2506.01908): the IoU of the interval said and the true one.

    The interval said is the first two numbers of the extracted answer; without them the reward is 0. The true one is
    the pair of numbers that the scenario's metadata call `key`; without it there is no opinion.
    """

    extract: Extraction = "answer-tag"
    key: str = "interval"
    name: str = "iou"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_extraction(self.extract)

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.grade(trajectory.text, trajectory.scenario) for trajectory in trajectories)

    def grade(self, text: str, scenario: Scenario) -> float | None:
        """The reward of one text."""
        truth = known_of(scenario, self.key)
        if truth is None:
            return None
        said = interval_of(EXTRACTIONS[self.extract](text) or "")
        return 0.0 if said is None else interval_iou(said, (float(truth[0]), float(truth[1])))


def interval_of(text: str) -> Interval | None:
    """The first two numbers of a text; None if there are fewer."""
    found = listed(text)
    return (found[0], found[1]) if len(found) >= 2 else None


TEMPORAL_R1 = GRPO.but(
    name="temporal-r1",
    title="Semantic and temporal rewards, data chosen by variance",
    source="Reinforcement Learning Tuning for VideoLLMs, arXiv:2506.01908",
    catalogue_ids=("temporal-r1",),
    axes=("reward", "data", "policy"),
    formula="r_i = [answer right] + |pred and gt|/|pred or gt|; only scenarios with Var_start(r) above a threshold",
    conventions={
        **GRPO.conventions,
        "data": "curriculum.numbers, as hocket.curriculum.variable chooses them from the start model's rewards; "
        "none: all scenarios",
        "variance": "divided by n - 1",
        "interval": "the first two numbers of the answer; without them 0; metadata name the true one",
        "cut-offs of the IoU": "none",
    },
    note="shown on intervals in text; video comes with its modality; the shipped base names no intervals",
    curriculum=Chosen(),
    rewards=(ExactMatch(), IntervalIoU()),
)
