"""Dynamic sampling: sample until enough groups have a signal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hocket.core import sums
from hocket.core.keys import Key
from hocket.rollout.groups import groups
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Score, Trajectory

Group = list[Trajectory]


@dataclass(frozen=True)
class DynamicSampling(Rollout):
    """Keeps only groups whose rewards differ, and samples further groups for the missing ones (DAPO, arXiv 2503.14476).

    The target is one group with signal per scenario of the step. Further scenarios come from the curriculum through
    `more`. Without `more`, scenarios without signal are sampled again with new keys, which shifts the mixture towards
    scenarios that rarely differ. Groups without signal and surplus groups are discarded. After `max_rounds` the step
    continues with its groups with signal, or with the first groups if none has a signal, so that it is never empty.

    Attributes:
        samples: trajectories per group, at least 2.
        max_rounds: the most rounds of sampling in one step, including the first.
        oversample: sample this many times the missing groups, at least 1; needs `more`.
        score: the score that must differ; None compares all scores (before weights and shaping).
        enough: the share of groups with signal at which sampling stops, in (0, 1]. Below 1 (GPG's threshold,
            arXiv 2504.02546) groups without signal fill up the batch instead of being discarded.
    """

    samples: int = 8
    max_rounds: int = 3
    oversample: float = 1.0
    score: str | None = None
    enough: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.enough <= 1:
            raise ValueError(f"enough must lie in (0, 1], not {self.enough}")
        if self.samples < 2:
            raise ValueError(f"samples must be at least 2 to differ, not {self.samples}")
        if self.max_rounds < 1:
            raise ValueError(f"max_rounds must be at least 1, not {self.max_rounds}")
        if self.oversample < 1:
            raise ValueError(f"oversample must be at least 1, not {self.oversample}")

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
        """The trajectories of groups with signal; metrics count rounds and groups."""
        wanted, enough = len(asked), self.enough * len(asked)
        active: list[Group] = []
        idle: list[Group] = []
        drawn: Counter[str] = Counter()
        pending = [*asked, *(more(self._number(wanted) - wanted) if more and self._number(wanted) > wanted else [])]
        rounds = 0
        while pending and rounds < self.max_rounds and len(active) < enough:
            rounds += 1
            groups = await self._ask(pending, drawn, play, score)
            differs = [has_signal(group, self.score) for group in groups]
            active += [group for group, differing in zip(groups, differs, strict=True) if differing]
            idle += [group for group, differing in zip(groups, differs, strict=True) if not differing]
            missing = wanted - len(active)
            if missing > 0 and rounds < self.max_rounds:
                silent = [asking for asking, differing in zip(pending, differs, strict=True) if not differing]
                pending = list(more(self._number(missing))) if more else silent
        metrics = {
            "rollout/rounds": float(rounds),
            "rollout/groups": float(len(active) + len(idle)),
            "rollout/groups_with_signal": float(len(active)),
        }
        filled = [*active, *idle[: max(0, wanted - len(active))]] if self.enough < 1 else active
        chosen, rest = (filled, idle[len(filled) - len(active) :]) if active else (idle, [])
        return Experience(_flat(chosen[:wanted]), _flat([*chosen[wanted:], *rest]), metrics)

    def _number(self, missing: int) -> int:
        return math.ceil(missing * self.oversample)

    async def _ask(self, pending: Sequence[Assignment], drawn: Counter[str], play: Play, score: Grade) -> list[Group]:
        """One group per assignment, scored. `drawn` counts samples per scenario, so that no sample is repeated."""
        assignments = []
        for asking in pending:
            first = asking.first + drawn[asking.scenario.id]
            assignments.append(replace(asking, samples=self.samples, first=first))
            drawn[asking.scenario.id] += self.samples
        played = await groups(play, assignments)
        await score([trajectory for group in played for trajectory in group])
        return played


def has_signal(group: Sequence[Trajectory], score: str | None = None) -> bool:
    """Whether the trajectories of a group, without failed ones, differ in their scores (or in the score named)."""
    complete = [trajectory for trajectory in group if trajectory.failure is None]
    names = sorted({name for trajectory in complete for name in trajectory.scores if score in (None, name)})
    return len({tuple(total(trajectory.scores.get(name)) for name in names) for trajectory in complete}) > 1


def total(score: Score | None) -> float:
    """A score's sum over a trajectory; missing and non-finite values count 0, as in the combined reward."""
    if score is None or score.value is None:
        return 0.0
    values = score.value if isinstance(score.value, (Sequence, np.ndarray)) else [score.value]
    numbers = [0.0 if value is None else float(value) for value in values]
    return sums.total(number for number in numbers if math.isfinite(number))


def _flat(groups: Sequence[Group]) -> list[Trajectory]:
    return [trajectory for group in groups for trajectory in group]
