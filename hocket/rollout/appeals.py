"""A second opinion on what was rejected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.core.method_columns import APPEAL
from hocket.keys import Key
from hocket.rollout.dynamic import total
from hocket.stages import Grade, LedgerView, More, Play, Reward, Rollout
from hocket.types import Assignment, Experience, Trajectory


@dataclass(frozen=True)
class WithAppeals(Rollout):
    """Independent samples, of whose rejected ones a second judge re-checks a share (arXiv 2510.00915).

    Rejected is a trajectory whose scores sum to less than `accept`. Each is re-checked with probability `share`, its
    own draw; the judge's verdict stands in `info["appeal"]`, None where it was not asked or had no opinion. Rewards
    stay as they are. Metrics count appeals and those upheld.

    Attributes:
        samples: trajectories of every scenario. judge: any reward whose verdict is 0 or 1; None asks nobody.
        share: probability of a re-check. accept: from which total score on an answer counts as accepted.
    """

    samples: int = 8
    judge: Reward | None = None
    share: float = 0.25
    accept: float = 0.5

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must lie in [0, 1], not {self.share}")

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
        """The samples, some with an appeal."""
        trajectories = await play([replace(assignment, samples=self.samples) for assignment in asked])
        await score(trajectories)
        chosen = [one for one in trajectories if self._appeals(one, key.derive("appeal"))]
        heard = await self.judge(chosen, key=key.derive("judge")) if self.judge is not None and chosen else []
        for trajectory in trajectories:
            APPEAL.write(trajectory, None)
        for trajectory, verdict in zip(chosen, heard, strict=False):
            APPEAL.write(trajectory, verdict)
        upheld = sum(verdict is not None and verdict >= 0.5 for verdict in heard)
        return Experience(trajectories, metrics={"appeals": float(len(heard)), "appeals/upheld": float(upheld)})

    def _appeals(self, trajectory: Trajectory, key: Key) -> bool:
        if trajectory.failure is not None or math.fsum(map(total, trajectory.scores.values())) >= self.accept:
            return False
        draw = key.derive(trajectory.scenario.id, trajectory.source, trajectory.sample).numpy().random()
        return bool(draw < self.share)
