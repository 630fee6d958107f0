"""Dynamic sampling that asks who was right, whatever else was earned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hocket.keys import Key
from hocket.rollout.dynamic import DynamicSampling, total
from hocket.stages import Grade, LedgerView, More, Play
from hocket.types import Assignment, Experience, Score, Trajectory

_RIGHT = "right or wrong"


@dataclass(frozen=True)
class AccuracySampling(DynamicSampling):
    """`DynamicSampling` whose groups have signal when some of their samples are right and others wrong.

    As DAPO's code filters by accuracy rather than by reward (TAPO, repository Goer17/TAPO): a group of wrong answers,
    only some of them well-formed, teaches nothing.

    Attributes:
        right: an attempt is right when the sum of its scores (or the one named by `score`) exceeds this.
    """

    right: float = 0.9

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
        """Groups that differ in accuracy; metrics as those of `DynamicSampling`."""

        async def judged(trajectories: Sequence[Trajectory]) -> None:
            await score(trajectories)
            for one in trajectories:
                worth = sum(total(found) for name, found in one.scores.items() if self.score in (None, name))
                one.scores[_RIGHT] = Score(float(worth > self.right))

        sampling = DynamicSampling(self.samples, self.max_rounds, self.oversample, _RIGHT, self.enough)
        found = await sampling.collect(asked, play=play, score=judged, ledger=ledger, key=key, more=more)
        for one in (*found.trajectories, *found.discarded):
            one.scores.pop(_RIGHT, None)
        return found
