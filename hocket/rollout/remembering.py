"""Rollouts with memory."""

from __future__ import annotations

from collections.abc import Sequence

from hocket.core.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout, State
from hocket.types import Assignment, Experience


class RememberingRollout(Rollout):
    """A rollout with memory. The loop passes its state from step to step.

    Steps must be collected in sequence, so a run with `overlap`, `lag` or `order = arrival` raises an error, and so
    does a recipe that puts it inside another rollout.
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
        """Like `collect`, with the state before the step; returns also the next state and leaves `state` unchanged."""
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
        """The experience of a first step; its state is dropped."""
        experience, _ = await self.collect_with(
            self.init(), asked, play=play, score=score, ledger=ledger, key=key, more=more
        )
        return experience
