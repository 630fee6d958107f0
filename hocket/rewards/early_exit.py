"""Rewards of a serial group: answers given at several places of one chain of thought."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hocket.core.method_columns import CHAIN, EXIT
from hocket.rewards.members import with_return
from hocket.rewards.outcomes import RIGHT
from hocket.signals import counted_trajectories, returns
from hocket.stages import Shaping
from hocket.types import Batch


@dataclass(frozen=True)
class DecayingExits(Shaping):
    """A right answer earns `base^-(n - 1)`, n the number of right answers up to and including it; a wrong one 0.

    S-GRPO (arXiv 2505.07686), base 2. Answers of a scenario are ordered by column `exit`, earliest first, apart for
    each `chain`; `hocket.rollout.SerialGroup` writes both. Where nothing is written the order is that of assignment.
    """

    base: float = 2.0
    least: float = RIGHT

    def __post_init__(self) -> None:
        if self.base < 1:
            raise ValueError(f"base must be at least 1, so that later answers earn no more, not {self.base}")

    def __call__(self, batch: Batch) -> Batch:
        good = (counted_trajectories(batch) & (returns(batch) >= self.least)).tolist()
        rows = range(batch.trajectories)
        exits, chains = EXIT.rows(batch), CHAIN.rows(batch)
        order, scenario = batch.order.tolist(), batch.scenario.tolist()
        seen: dict[tuple[int, object], int] = {}
        reward = torch.zeros(batch.trajectories, dtype=torch.float64)
        for row in sorted(rows, key=lambda row: (order[row] if exits[row] is None else exits[row], order[row])):
            if good[row]:
                serial = (scenario[row], chains[row])
                seen[serial] = seen.get(serial, 0) + 1
                reward[row] = self.base ** -(seen[serial] - 1)
        return with_return(batch, reward)
