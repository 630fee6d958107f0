"""The samples that score well: the data of rejection-sampling fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.core import sums
from hocket.core.keys import Key
from hocket.core.signals import RIGHT
from hocket.rollout.dynamic import total
from hocket.stages import Grade, LedgerView, More, Play, Reward, Rollout
from hocket.types import Assignment, Experience, Trajectory


@dataclass(frozen=True)
class Selected(Rollout):
    """Independent samples, of which those are kept that score well: the data of rejection-sampling fine-tuning.

    Kept is a whole trajectory whose scores sum to at least `least`, and of which the judge, if there is one, thinks
    well (0.5 or more; no opinion is no objection). The others are discarded; a step may keep none.

    Attributes:
        samples: trajectories of every scenario. least: the total score to reach. judge: any reward.
    """

    samples: int = 8
    least: float = RIGHT
    judge: Reward | None = None

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
        """The good samples."""
        trajectories = await play([replace(assignment, samples=self.samples) for assignment in asked])
        await score(trajectories)
        good = [
            trajectory
            for trajectory in trajectories
            if trajectory.failure is None and self._scored(trajectory) >= self.least
        ]
        if self.judge is not None and good:
            verdicts = await self.judge(good, key=key.derive("judge"))
            good = [sample for sample, verdict in zip(good, verdicts, strict=True) if verdict is None or verdict >= 0.5]
        ids = {id(trajectory) for trajectory in good}
        rest = [trajectory for trajectory in trajectories if id(trajectory) not in ids]
        return Experience(good, rest, {"rollout/kept": len(good) / max(1, len(trajectories))})

    def _scored(self, trajectory: Trajectory) -> float:
        return sums.total(map(total, trajectory.scores.values()))
