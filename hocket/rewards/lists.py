"""Ranked lists: which items hit, and the discounted gain that is left from each rank on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hocket.core.method_columns import HITS
from hocket.keys import Key
from hocket.stages import Reward
from hocket.types import Trajectory


def discounted_gains(hits: Sequence[float]) -> list[float]:
    """`R_k = sum_{j >= k} hit_j / log2(j + 1)`, ranks from 1: the gain of rank k and later ones. R_1 is the DCG."""
    gains = [hit / math.log2(rank + 1) for rank, hit in enumerate(hits, start=1)]
    left, found = 0.0, []
    for gain in reversed(gains):
        left += gain
        found.append(left)
    return found[::-1]


def hits_of(items: Sequence[str], relevant: Sequence[str]) -> list[float]:
    """1 where an item is relevant and is listed for the first time, else 0. Case and outer space are ignored."""
    wanted = {name.strip().casefold() for name in relevant}
    hits = []
    for item in items:
        name = item.strip().casefold()
        hits.append(float(name in wanted))
        wanted.discard(name)
    return hits


@dataclass(frozen=True)
class ListGain(Reward):
    """The discounted cumulative gain of a list with an item per line (Järvelin and Kekäläinen 2002).

    What is relevant are the members of the scenario's answer. The hits by rank become the trajectory's column `hits`,
    which `hocket.credit.RankRelative` reads.
    """

    name: str = "dcg"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        """The gain of each list; None where the scenario does not say what is relevant."""
        return [self._gain(trajectory) for trajectory in trajectories]

    def _gain(self, trajectory: Trajectory) -> float | None:
        relevant = trajectory.scenario.answer
        if not isinstance(relevant, (list, tuple)):
            return None
        items = [line for line in trajectory.text.splitlines() if line.strip()]
        hits = hits_of(items, [str(name) for name in relevant])
        HITS.write(trajectory, hits)
        return discounted_gains(hits)[0] if hits else 0.0
