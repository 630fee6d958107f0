"""Where a scorer is read: weights on the decisions after which it is asked."""

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
    """The credit of `credit`, its weights kept only where a trajectory's score is read; what is not read costs nothing.

    Attributes:
        where: after the last decision of a trajectory that counts, of each of its turns, or after all. With several the
            trajectory's score is their sum.

    Raises:
        ValueError: for an unknown place, and a credit with a memory.
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
        seen = self.credit(batch)
        if self.where == "decisions":
            return seen
        whose = seen.trajectory if self.where == "end" else turn_visits(batch)[0]
        kept = _last(seen.weight != 0, whose)
        return replace(seen, weight=torch.where(kept, seen.weight, torch.zeros_like(seen.weight)))


@dataclass(frozen=True)
class AtScores(Credit):
    """Weights kept where a recorded score stands: a trajectory's at its last decision, a turn's at its last, or there.

    Advantages are 1 there.

    Attributes:
        of: the names of the scores; a decision that none of them is about gets weight 0.

    Raises:
        ConfigurationError: on a call, where the batch has no score of a name.
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
    """The last of each owner's occurrences that count, `[E]` bool; owners never fall."""
    place = torch.arange(len(whose))
    size = int(whose.max()) + 1 if len(whose) else 0
    last = torch.full((size,), -1).scatter_reduce(0, whose[counted], place[counted], "amax")
    return counted & (place == last[whose])
