"""Credit of one role in its own way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from hocket.core.batch import Batch, Occurrences
from hocket.credit.group import GroupRelative
from hocket.credit.reinforce import ReturnToGo
from hocket.stages import Credit, Stateful


@dataclass(frozen=True)
class Apart(Credit):
    """`own` credits the decisions of `role`, `credit` those of all others; to each the other is environment.

    Rewards of turns and decisions belong to whose they are; that of a whole trajectory is both's, at the last decision.

    Attributes:
        own, credit: without memory, giving advantages.
    """

    role: str = "coach"
    own: Credit = field(default_factory=ReturnToGo)
    credit: Credit = field(default_factory=GroupRelative)

    def __post_init__(self) -> None:
        for one in (self.own, self.credit):
            if one.pairs or isinstance(one, Stateful) or one.gives_targets:
                raise ValueError("own and credit must give advantages from a batch alone, without values or memory")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        seen, names = batch.occurrences, batch.names["role"]
        code = names.index(self.role) if self.role in names else -1
        mine = batch.role[batch.turn[seen.decision]] == code
        advantage = torch.zeros(len(seen), dtype=torch.float64)
        weight = seen.weight.clone()
        for part, credit in ((mine, self.own), (~mine, self.credit)):
            if part.any():
                given = credit(batch.restricted(part))
                advantage[part] = given.advantage.double()
                weight[part] = given.weight.to(weight.dtype)
        return replace(seen, advantage=advantage, weight=weight)
