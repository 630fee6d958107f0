"""Independent samples whose actions are kept to a nucleus that changes slowly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.keys import Key
from hocket.stages import Grade, LedgerView, More, Play
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class DelayedNucleus:
    """`samples` of every scenario, every action from the nucleus of the policy's delayed copy (NLPO, arXiv 2210.01241).

    The nucleus is the smallest set of actions with at least `mass` under the copy, which an update such as
    `hocket.update.DelayedMaskStep` refreshes. The sets are recorded, and learning applies them again.
    """

    samples: int = 1
    mass: float = 0.9

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0 < self.mass <= 1:
            raise ValueError(f"samples must be at least 1 and mass in (0, 1], not {self.samples} and {self.mass}")

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
        trajectories = await play(
            [replace(one, samples=self.samples, decoding=replace(one.decoding, nucleus=self.mass)) for one in asked]
        )
        await score(trajectories)
        return Experience(trajectories)
