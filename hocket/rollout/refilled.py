"""More scenarios, where part of their samples will be left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class Refilled(Rollout):
    """`samples` of `ceil(B / (1 - rate))` scenarios where B were asked: CPPO's refilled slots (arXiv 2503.22342).

    With `hocket.credit.Pruned(rate)` the batch that is learnt from keeps its size and covers more scenarios. Further
    ones come from the curriculum; where that gives none, the asked ones alone are played.
    """

    samples: int = 16
    rate: float = 0.75

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        if not 0 <= self.rate < 1:
            raise ValueError(f"rate must lie in [0, 1), not {self.rate}")

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
        """The groups of all scenarios."""
        further = math.ceil(len(asked) / (1 - self.rate) - 1e-9) - len(asked)
        added = list(more(further)) if more is not None and further > 0 else []
        trajectories = await play([replace(asking, samples=self.samples) for asking in (*asked, *added)])
        await score(trajectories)
        return Experience(trajectories)
