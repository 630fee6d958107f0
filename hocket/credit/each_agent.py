"""Separate credit for each agent of a team."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.credit.group import GroupRelative
from hocket.stages import Credit, Stateful

Whose = Literal["agent", "role", "policy"]


@dataclass(frozen=True)
class EachAgent(Credit):
    """Computes `credit` for each agent's decisions as if the other agents were environment (independent learners).

    An agent's rewards are those of its own turns and decisions. The reward of the trajectory counts for every agent, at
    its last decision. Groups, baselines and whitening contain one agent's decisions only, so agents whose rewards
    differ in scale or mean are not compared with each other. Value chains run through the agent's own decisions. For a
    team with one agent the result equals that of `credit`.

    Attributes:
        credit: a credit without memory that gives advantages. by: the column that defines an agent.
    """

    credit: Credit = field(default_factory=GroupRelative)
    by: Whose = "role"

    def __post_init__(self) -> None:
        if self.by not in get_args(Whose):
            raise ValueError(f"by is {self.by!r}; choose from {', '.join(get_args(Whose))}")
        if self.credit.pairs or isinstance(self.credit, Stateful):
            raise ValueError("credit yields pairs or remembers; set it to one that gives advantages from a batch alone")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages (and targets) `[E]` float64."""
        occurrences = batch.occurrences
        column: Tensor = getattr(batch, self.by)
        whose = column[batch.turn[occurrences.decision]]
        advantage = torch.zeros(len(occurrences), dtype=torch.float64)
        target = torch.zeros(len(occurrences), dtype=torch.float64) if self.gives_targets else None
        weight = occurrences.weight.clone()
        for code in torch.unique(whose).tolist():
            mine = whose == code
            credited = self.credit(batch.restricted(mine))
            advantage[mine] = credited.advantage.double()
            weight[mine] = credited.weight.to(weight.dtype)
            if target is not None and credited.target is not None:
                target[mine] = credited.target.double()
        return replace(occurrences, advantage=advantage, weight=weight, target=target)
