"""Only problems that are neither too easy nor too hard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Trajectory


@dataclass(frozen=True)
class WithinBand(Rollout):
    """Keeps the episodes whose `share` of good attempts lies in [low, high], and asks on until the batch is full.

    CPMobius (arXiv 2602.02979 and the authors' code): every episode is a problem and several attempts at it; the
    workflow says in the column `share` how many of them were rewarded. Missing episodes are asked from the curriculum,
    or afresh of the same scenarios where that gives none. After `max_rounds` a step goes on with what it has (the code
    asks on); with nothing at all, with the episodes first asked, unless it may be `empty`. Episodes without a share are
    kept.

    Attributes:
        samples: episodes per scenario. low, high: the band, both ends included. column: in the episode's info.
        empty: a step may keep none.
    """

    samples: int = 1
    low: float = 0.2
    high: float = 0.8
    max_rounds: int = 4
    column: str = "share"
    empty: bool = False

    def __post_init__(self) -> None:
        if self.samples < 1 or self.max_rounds < 1:
            raise ValueError(f"samples and max_rounds must be at least 1, not {self.samples} and {self.max_rounds}")
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(f"low and high must be shares in order, not {self.low} and {self.high}")

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
        """As many episodes as were asked; metrics count rounds and the share that was kept."""
        wanted = self.samples * len(asked)
        kept: list[Trajectory] = []
        rest: list[Trajectory] = []
        drawn: Counter[str] = Counter()
        pending, rounds = list(asked), 0
        while pending and rounds < self.max_rounds and len(kept) < wanted:
            rounds += 1
            played = await self._played(pending, drawn, play)
            for one in played:
                (kept if self._fits(one) else rest).append(one)
            missing = -(-(wanted - len(kept)) // self.samples)
            if missing > 0 and rounds < self.max_rounds:
                pending = list(more(missing)) if more is not None else pending[:missing]
        share = len(kept) / max(1, len(kept) + len(rest))
        if not kept and not self.empty:
            kept, rest = rest, []
        chosen, left = kept[:wanted], [*kept[wanted:], *rest]
        await score([*chosen, *left])
        return Experience(chosen, left, {"rollout/rounds": float(rounds), "rollout/kept": share})

    async def _played(self, pending: Sequence[Assignment], drawn: Counter[str], play: Play) -> list[Trajectory]:
        """The episodes of each assignment, numbered on from those drawn before."""
        assignments = []
        for asking in pending:
            first = asking.first + drawn[asking.scenario.id]
            assignments.append(replace(asking, samples=self.samples, first=first))
            drawn[asking.scenario.id] += self.samples
        return list(await play(assignments))

    def _fits(self, trajectory: Trajectory) -> bool:
        share = trajectory.info.get(self.column)
        return trajectory.failure is None and (share is None or self.low <= share <= self.high)
