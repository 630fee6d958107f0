"""Now one rollout, now another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hocket.core.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class AlternatingRollout(Rollout):
    """The rollouts of `members` in turn, each for `every` steps.

    With `AlternatingCredit` and `AlternatingObjective` of as many members and the same `every`, a recipe is several
    methods by turns.
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
        """That of the first member; the training step asks `at` for the one whose turn it is."""
        return await self.members[0].collect(asked, play=play, score=score, ledger=ledger, key=key, more=more)
