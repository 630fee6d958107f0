"""Several plans of a scenario, each carried out several times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.keys import Key
from hocket.rollout.groups import groups
from hocket.rollout.message_tree import Node, grafted
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Replay, Trajectory


@dataclass(frozen=True)
class PlanRuns(Rollout):
    """`plans` plans per scenario, and `runs` episodes with each, so that a plan is worth their mean score.

    The Monte Carlo of MPO (arXiv 2503.02682, and the authors' scripts). The plan is the first message of an episode;
    further runs replay it. Equal messages after equal histories are one object, so a plan that was drawn twice is one
    with twice the runs. What the workflow draws itself is the same for all plans of a scenario. A player without
    workflows begins anew each time, so its plans are all there is.
    """

    plans: int = 5
    runs: int = 5

    def __post_init__(self) -> None:
        if self.plans < 2 or self.runs < 1:
            raise ValueError(f"plans must be at least 2 and runs at least 1, not {self.plans} and {self.runs}")

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
        """Per scenario its plans in order, each with its runs."""
        first = await groups(play, [replace(one, samples=self.plans, replay=Replay(sample=one.first)) for one in asked])
        further = [self._again(asking, one) for asking, drawn in zip(asked, first, strict=True) for one in drawn]
        again = iter(await groups(play, further if self.runs > 1 else []))
        found: list[Trajectory] = []
        plans = 0
        for drawn in first:
            root = Node()
            for planned in drawn:
                mine = [planned, *next(again, ())]
                for one in mine:
                    if one.failure is None:
                        grafted(root, one)
                found += mine
            plans += len(root.children)
        await score(found)
        return Experience(found, metrics={"rollout/plans": float(plans)})

    def _again(self, asking: Assignment, planned: Trajectory) -> Assignment:
        first = asking.first + self.plans + (planned.sample - asking.first) * (self.runs - 1)
        replay = Replay(tuple(planned.turns[:1]), sample=asking.first)
        return replace(asking, samples=self.runs - 1, first=first, replay=replay)
