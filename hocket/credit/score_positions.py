"""Score positions: weights that select the decisions after which a scorer is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.signals import standing, turn_visits
from hocket.stages import Credit, Stateful

Where = Literal["end", "turns", "decisions"]


@dataclass(frozen=True)
class ReadAt(Credit):
    """The credit of `credit`, with weight 0 except where a trajectory's score is read.

    Attributes:
        where: after the last counted decision of a trajectory (`end`), of each of its turns (`turns`), or after every
            one (`decisions`). A trajectory's score is the sum over these positions.

    Raises:
        ValueError: for an unknown position, and a credit with memory.
    """

    credit: Credit
    where: Where = "end"

    def __post_init__(self) -> None:
        if self.where not in get_args(Where):
            raise ValueError(f"where is {self.where!r}; choose from {', '.join(get_args(Where))}")
        if isinstance(self.credit, Stateful):
            raise ValueError(
                f"credit {type(self.credit).__name__} has a memory, which ReadAt does not keep; use another"
            )

    def __call__(self, batch: Batch) -> Occurrences:
        occurrences = self.credit(batch)
        if self.where == "decisions":
            return occurrences
        owner = occurrences.trajectory if self.where == "end" else turn_visits(batch)[0]
        last = _last(occurrences.weight != 0, owner)
        weight = torch.where(last, occurrences.weight, torch.zeros_like(occurrences.weight))
        return replace(occurrences, weight=weight)


@dataclass(frozen=True)
class AtScores(Credit):
    """Weight 0 except where a recorded score applies; the advantage is 1 there.

    A trajectory's score applies at its last decision, a turn's at the turn's last decision, a decision's at itself.

    Attributes:
        of: the names of the scores; decisions without any of them get weight 0.

    Raises:
        ConfigurationError: on a call, when the batch has no score of a name.
    """

    of: tuple[str, ...] = ("label",)

    def __call__(self, batch: Batch) -> Occurrences:
        occurrences = batch.occurrences
        known = torch.zeros(len(occurrences), dtype=torch.bool)
        for name in self.of:
            known |= ~standing(batch, name).isnan()
        weight = torch.where(known, occurrences.weight, torch.zeros_like(occurrences.weight))
        return replace(occurrences, weight=weight, advantage=known.double())


def _last(counted: Tensor, whose: Tensor) -> Tensor:
    """The last counted occurrence of each owner, `[E]` bool; owners `whose` `[E]` are non-decreasing."""
    place = torch.arange(len(whose))
    size = int(whose.max()) + 1 if len(whose) else 0
    last = torch.full((size,), -1).scatter_reduce(0, whose[counted], place[counted], "amax")
    return counted & (place == last[whose])
