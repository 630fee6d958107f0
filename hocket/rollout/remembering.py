"""Rollouts with memory."""

from __future__ import annotations

from collections.abc import Sequence

from hocket.core.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout, State
from hocket.types import Assignment, Experience


class RememberingRollout(Rollout):
    """A rollout with memory: what it remembers is threaded by the loop, beside what credit and updates remember.

    Steps are collected one after the other, so it is refused where they are collected ahead (`overlap`, `lag`,
    `order = arrival`), and inside another rollout.
    """

    def init(self) -> State:
        """The state before the first step."""
        raise NotImplementedError

    async def collect_with(
        self,
        state: State,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> tuple[Experience, State]:
        """As `collect`, from a state to the next one; the given one is left as it was."""
        raise NotImplementedError

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
        """Experience of a first step, which is then forgotten."""
        found, _ = await self.collect_with(
            self.init(), asked, play=play, score=score, ledger=ledger, key=key, more=more
        )
        return found
