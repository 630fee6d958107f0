"""Now one objective, now another."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.stages import Objective
from hocket.types import Batch, Column, Evaluation, Level, Quantity, Terms


@dataclass(frozen=True)
class AlternatingObjective:
    """The objectives of `members` in turn, each for `every` steps; see `hocket.rollout.AlternatingRollout`."""

    members: tuple[Objective, ...]
    every: int = 10

    def __post_init__(self) -> None:
        if not self.members or self.every < 1:
            raise ValueError(f"there must be members, and every at least 1, not {self.every}")

    @property
    def needs(self) -> frozenset[Quantity]:
        return frozenset[Quantity]().union(*(member.needs for member in self.members))

    @property
    def reads(self) -> frozenset[Column]:
        return frozenset[Column]().union(*(member.reads for member in self.members))

    @property
    def couples(self) -> Level:
        order = list(Level)
        return max((member.couples for member in self.members), key=order.index)

    @property
    def idle_without_advantage(self) -> bool:
        return all(member.idle_without_advantage for member in self.members)

    @property
    def on_policy_only(self) -> bool:
        return any(getattr(member, "on_policy_only", False) for member in self.members)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        """The terms of the member whose turn it is."""
        return self.members[max(batch.step - 1, 0) // self.every % len(self.members)](now, batch)
