"""Alternation between several rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hocket.core.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class AlternatingRollout(Rollout):
    """Uses the rollouts of `members` in turn, each for `every` steps.

    Together with `AlternatingCredit` and `AlternatingObjective`, with as many members and the same `every`, a recipe
    alternates between several methods.
    """

    members: tuple[Rollout, ...]
    every: int = 10

    def __post_init__(self) -> None:
        if not self.members or self.every < 1:
            raise ValueError(f"there must be members, and every at least 1, not {self.every}")

    def at(self, step: int) -> Rollout:
        """The rollout of `step` (from 1)."""
        return self.members[(step - 1) // self.every % len(self.members)]

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """The experience of the first member; the training step calls `at` for the current member."""
        return await self.members[0].collect(asked, play=play, score=score, ledger=ledger, key=key, more=more)
