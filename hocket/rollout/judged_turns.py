"""Dialogues with a word on which of their turns decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hocket.core.method_columns import DECISIVE
from hocket.keys import Key
from hocket.rollout.groups import groups
from hocket.rollout.named_turns import Finished, ProbedTurns, TurnJudge, own_turns
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class JudgedTurns(Rollout):
    """`samples` trajectories per scenario, and for each, when it is scored, the turns that a judge calls decisive.

    The process labels of EPO (arXiv 2502.12486). Column `decisive` holds their places among all turns, a list per
    trajectory; it is for `hocket.rewards.DecisiveTurns`. Metric `rollout/decisive` is their mean number.

    Attributes:
        judge: who names them. role: whose turns can be named; None, or a role nobody plays: everybody's.
    """

    samples: int = 8
    judge: TurnJudge = field(default_factory=lambda: ProbedTurns(by="change"))
    role: str | None = None

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
        """The trajectories in assignment order."""
        played = await groups(play, [replace(one, samples=self.samples) for one in asked])
        trajectories = [one for group in played for one in group]
        await score(trajectories)
        finished = [
            Finished(asking, one, own_turns(one, self.role))
            for asking, group in zip(asked, played, strict=True)
            for one in group
            if one.failure is None
        ]
        named = await self.judge(finished, play=play, score=score, key=key.derive("judge"))
        for trajectory in trajectories:
            DECISIVE.write(trajectory, [])
        for one, turns in zip(finished, named, strict=True):
            DECISIVE.write(one.dialogue, sorted(one.own[turn] for turn in turns))
        found = [len(turns) for turns in named]
        return Experience(trajectories, metrics={"rollout/decisive": sum(found) / len(found)} if found else {})
