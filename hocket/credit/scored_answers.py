"""Credit among those answers alone that somebody scored."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.signals import REWARD
from hocket.credit.group import GroupRelative
from hocket.stages import Credit, Stateful


def unscored(batch: Batch) -> Tensor:
    """Trajectories with scores, none of which has an opinion of them, `[N]` bool; none where there are no scores."""
    scores = [
        s.values for name, s in batch.scores.items() if s.level is Level.TRAJECTORY and name not in REWARD.values()
    ]
    if not scores:
        return torch.zeros(batch.trajectories, dtype=torch.bool)
    return torch.stack(scores).isnan().all(0)


@dataclass(frozen=True)
class WithoutUnscored(Credit):
    """`of`, with the answers that nobody scored in none of its statistics; they get 0, and stay in denominators.

    Without it an answer whose rewards all give None has return 0, which lowers its group's mean and is blamed where
    others did better. TRL leaves such answers out so. Where rewards are given by turn or decision nobody is left out.
    """

    of: Credit = field(default_factory=GroupRelative)

    def __post_init__(self) -> None:
        if self.of.pairs or isinstance(self.of, Stateful):
            raise ValueError(f"of must be a credit of advantages without memory, not {type(self.of).__name__}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        occurrences = batch.occurrences
        out = unscored(batch)[occurrences.trajectory]
        credited = self.of(
            batch.credited(weight=torch.where(out, torch.zeros_like(occurrences.weight), occurrences.weight))
        )
        weight = torch.where(out, occurrences.weight.to(credited.weight.dtype), credited.weight)
        return replace(credited, advantage=torch.where(out, 0.0, credited.advantage), weight=weight)
