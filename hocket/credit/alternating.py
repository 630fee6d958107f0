"""Alternation between several credits."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.core.batch import Batch, Occurrences
from hocket.stages import Credit, Stateful


@dataclass(frozen=True)
class AlternatingCredit(Credit):
    """Uses the credits of `members` in turn, each for `every` steps; see `hocket.rollout.AlternatingRollout`."""

    members: tuple[Credit, ...]
    every: int = 10

    def __post_init__(self) -> None:
        if not self.members or self.every < 1:
            raise ValueError(f"there must be members, and every at least 1, not {self.every}")
        if any(isinstance(member, Stateful) for member in self.members):
            raise ValueError("a credit with memory cannot take turns; leave it out of members")

    def __call__(self, batch: Batch) -> Occurrences:
        """The occurrences with the credit of the current member."""
        return self.members[max(batch.step - 1, 0) // self.every % len(self.members)](batch)
