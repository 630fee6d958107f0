"""Samples with a greedy baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from hocket.core.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class WithGreedyBaseline(Rollout):
    """`samples` trajectories per scenario and a greedy one of source `baseline`: ReMax (arXiv 2310.10505).

    `hocket.credit.GreedyBaseline` reads the greedy trajectory, which is never learnt from.
    """

    samples: int = 1

    gives_baseline: ClassVar[bool] = True

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
        """Per scenario its samples, then its baseline."""
        assignments = []
        for asking in asked:
            greedy = replace(asking.decoding, temperature=0.0)
            assignments.append(replace(asking, samples=self.samples))
            assignments.append(replace(asking, samples=1, decoding=greedy, source="baseline"))
        trajectories = await play(assignments)
        await score(trajectories)
        return Experience(trajectories)
