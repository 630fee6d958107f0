"""Rollouts that mix new samples with replayed ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.core.keys import Key
from hocket.core.signals import RIGHT
from hocket.rollout.groups import groups
from hocket.rollout.remembering import RememberingRollout
from hocket.rollout.replay_store import ReplayStore, Take, ages, chosen, mixed_in, replaced_failure, worth
from hocket.stages import Grade, LedgerView, More, Play, State
from hocket.types import Assignment, Experience, Trajectory


@dataclass(frozen=True)
class WithReplays(RememberingRollout):
    """`samples` new trajectories per scenario, and at most `earlier` from previous steps.

    `take` selects the earlier trajectories. They are learnt from as recorded: the ratio of each decision is to the
    policy that sampled it. Credit distinguishes the two sets by their source.

    Attributes:
        store: the replay store. metrics: `replay/trajectories`, `replay/age` and `replay/oldest`, in steps.
    """

    samples: int = 8
    earlier: int = 8
    take: Take = "recent"
    store: ReplayStore = ReplayStore()

    def __post_init__(self) -> None:
        if self.samples < 1 or self.earlier < 0:
            raise ValueError(f"samples must be at least 1 and earlier at least 0, not {self.samples}, {self.earlier}")
        chosen((), self.earlier, self.take, Key.of(0))

    def wanted(self, fresh: Sequence[Trajectory]) -> int:
        """The most earlier trajectories to add to these scored samples."""
        return self.earlier

    def init(self) -> State:
        return self.store.init()

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
        """Per scenario the fresh samples, then the earlier ones, oldest first."""
        fresh = await groups(play, [replace(asking, samples=self.samples) for asking in asked])
        everything = [trajectory for group in fresh for trajectory in group]
        await score(everything)
        old = [
            self.store.draw(state, item.scenario, self.wanted(group), self.take, key.derive("replay", item.scenario.id))
            for item, group in zip(asked, fresh, strict=True)
        ]
        metrics = ages([trajectory for group in old for trajectory in group])
        return Experience(mixed_in(fresh, old), metrics=metrics), self.store.add(state, everything)


@dataclass(frozen=True)
class ReusedSuccess(RememberingRollout):
    """Samples of every scenario. If all samples of a scenario fail, an earlier success replaces one of them.

    A sample fails if the sum of its scores is below `success`. The replayed success and the replaced sample are random;
    groups with a success are unchanged. Samples are drawn in `stages` of `samples`, and later stages sample only
    scenarios without a success.

    Attributes:
        stages: 1 samples every group once. fresh_ratio: the learner's log-probs replace the recorded ones, so that the
            first ratio of replayed trajectories is 1. store: the store of successes.
        metrics: `rollout/failed` groups, replayed `replay/trajectories`, `replay/age` and `replay/oldest`.
    """

    samples: int = 8
    stages: int = 1
    success: float = RIGHT
    fresh_ratio: bool = False
    store: ReplayStore = ReplayStore()

    def __post_init__(self) -> None:
        if self.samples < 1 or self.stages < 1:
            raise ValueError(f"samples and stages must be at least 1, not {self.samples} and {self.stages}")

    def init(self) -> State:
        return self.store.init()

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
        """The groups in the order of `asked`."""
        samples = await self._staged(asked, play, score)
        successes = [trajectory for group in samples for trajectory in group if self._right(trajectory)]
        failed = [number for number, group in enumerate(samples) if not any(map(self._right, group))]
        discarded, back = list[Trajectory](), list[Trajectory]()
        for number in failed:
            scenario, draw = asked[number].scenario, key.derive("replay", asked[number].scenario.id)
            for past in self.store.draw(state, scenario, 1, "any", draw, least=self.success):
                group = replaced_failure(samples[number], self._as_learnt(past), draw.derive("place"))
                discarded += [old for old in samples[number] if not any(old is other for other in group)]
                samples[number] = group
                back.append(past)
        metrics = {"rollout/failed": float(len(failed)), **ages(back)}
        experience = Experience([trajectory for group in samples for trajectory in group], discarded, metrics)
        return experience, self.store.add(state, successes)

    async def _staged(self, asked: Sequence[Assignment], play: Play, score: Grade) -> list[list[Trajectory]]:
        """The samples of each scenario, in stages until one succeeds."""
        samples: list[list[Trajectory]] = [[] for _ in asked]
        for stage in range(self.stages):
            left = [number for number, group in enumerate(samples) if not any(map(self._right, group))]
            again = [
                replace(asked[number], samples=self.samples, first=asked[number].first + stage * self.samples)
                for number in left
            ]
            played = await groups(play, again)
            if left:
                await score([trajectory for group in played for trajectory in group])
            for number, group in zip(left, played, strict=True):
                samples[number] += group
        return samples

    def _right(self, trajectory: Trajectory) -> bool:
        return trajectory.failure is None and worth(trajectory) >= self.success

    def _as_learnt(self, one: Trajectory) -> Trajectory:
        for turn in one.turns if self.fresh_ratio else ():
            turn.logp = None
        return one


def expected_samples(success: float, samples: int, stages: int) -> float:
    """The expected number of samples of a scenario: `k sum_{s < S} (1 - p)^(k s)` for success probability p."""
    return samples * math.fsum((1 - success) ** (samples * stage) for stage in range(stages))
