"""Runs that sample nothing: they learn from what their store holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hocket.core.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class Offline(Rollout):
    """No samples. The recipe's store brings the data (`store.data`); evaluation plays as ever."""

    samples: int = 1

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
        """Nothing."""
        return Experience([])
