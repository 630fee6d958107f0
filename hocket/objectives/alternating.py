"""Alternation between several objectives."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.core.batch import Batch
from hocket.stages import Objective
from hocket.types import Evaluation, Terms


@dataclass(frozen=True)
class AlternatingObjective(Objective):
    """Uses the objectives of `members` in turn, each for `every` steps; see `hocket.rollout.AlternatingRollout`."""

    members: tuple[Objective, ...]
    every: int = 10

    def __post_init__(self) -> None:
        if not self.members or self.every < 1:
            raise ValueError(f"there must be members, and every at least 1, not {self.every}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        """The terms of the current member."""
        return self.members[max(batch.step - 1, 0) // self.every % len(self.members)](now, batch)
