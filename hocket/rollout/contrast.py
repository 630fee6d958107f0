"""Two groups under opposite instructions, which tell whether following one of them pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.core.columns import InfoColumn
from hocket.core.method_columns import ACCURACY_WITH, ACCURACY_WITHOUT
from hocket.keys import Key
from hocket.rollout.branches import NUMBERED
from hocket.rollout.dynamic import total
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Trajectory

TOLD = InfoColumn("told", "`use` or `avoid`, what the sample was told; absent where it was told nothing.")

USE = "Use an auxiliary construction: write down a helpful intermediate quantity before you solve the problem."
AVOID = "Solve the problem directly, without any auxiliary construction."


@dataclass(frozen=True)
class ContrastGroups(Rollout):
    """Per scenario `probes` rollouts told to construct, as many told not to, and `samples` told nothing.

    GCPO (arXiv 2506.07160). The mean scores of the two told groups are written into every trajectory of the scenario,
    columns `accuracy_with` and `accuracy_without`, for `hocket.rewards.ContrastBonus`. The told groups inform and are
    not learnt from (source `baseline`): what should be learnt is to decide without being told. With `samples` 0 they
    are learnt from themselves, as the paper's abstract can also be read.

    Attributes:
        use, avoid: what the two groups are told, a line under the prompt. score: whose mean is taken; None for all.
    """

    samples: int = 8
    probes: int = 4
    use: str = USE
    avoid: str = AVOID
    score: str | None = None

    def __post_init__(self) -> None:
        if self.probes < 1 or self.samples < 0:
            raise ValueError(f"probes must be at least 1, samples at least 0, not {self.probes} and {self.samples}")

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
        """Per scenario the untold, those told to construct, those told not to."""
        played = await play([told for asking in asked for told in self._told(asking)])
        await score(played)
        size, found = self.samples + 2 * self.probes, []
        for number in range(len(asked)):
            group = played[number * size : (number + 1) * size]
            self._compare(group)
            found += group
        return Experience(found)

    def _told(self, asking: Assignment) -> list[Assignment]:
        source = "baseline" if self.samples else asking.source
        told = [
            replace(asking, samples=self.probes, hint=hint, source=source, first=asking.first + place * NUMBERED)
            for place, hint in enumerate((self.use, self.avoid), start=1)
        ]
        return [replace(asking, samples=self.samples), *told] if self.samples else told

    def _compare(self, group: Sequence[Trajectory]) -> None:
        """Writes the mean scores of a scenario's two told groups into all of its trajectories."""
        sides = group[self.samples :]
        means = [self._mean(side) for side in (sides[: self.probes], sides[self.probes :])]
        for place, trajectory in enumerate(group):
            trajectory.info |= {ACCURACY_WITH.name: means[0], ACCURACY_WITHOUT.name: means[1]}
            if place >= self.samples:
                TOLD.write(trajectory, "use" if place < self.samples + self.probes else "avoid")

    def _mean(self, side: Sequence[Trajectory]) -> float | None:
        values = [
            sum(total(one) for name, one in trajectory.scores.items() if self.score in (None, name))
            for trajectory in side
            if trajectory.failure is None
        ]
        return sum(values) / len(values) if values else None
