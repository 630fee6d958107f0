"""Independent samples of every scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.core.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class Independent(Rollout):
    """`samples` independent trajectories of every scenario."""

    samples: int = 8

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")

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
        trajectories = await play([replace(assignment, samples=self.samples) for assignment in asked])
        await score(trajectories)
        return Experience(trajectories)
