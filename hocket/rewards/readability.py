"""How readable messages are to the model as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.errors import ConfigurationError
from hocket.rewards.members import with_return
from hocket.segments import segment_count, segment_extreme, segment_mean
from hocket.signals import returns, turn_visits
from hocket.stages import Shaping
from hocket.types import Batch, Column


def message_losses(batch: Batch) -> tuple[Tensor, Tensor]:
    """The mean of -log p_reference over the decisions of each message, `[M]` float64, and whose it is, `[M]`.

    A message is a trajectory's visit to a turn. Imposed decisions, and those whose log-prob is unknown, are left out,
    and messages in which none is left.
    """
    seen, reference = batch.occurrences, batch.logp[Column.REFERENCE.name]
    visit, starts = turn_visits(batch)
    used = (reference.present & ~batch.forced)[seen.decision]
    loss = -reference.values.detach().double()[seen.decision[used]]
    size = int(starts.sum())
    known = segment_count(visit[used], size) > 0
    return segment_mean(loss, visit[used], size)[known], seen.trajectory[starts][known]


@dataclass(frozen=True)
class Readability(Shaping):
    """Adds `weight / max_u NLL(u)` to the return, NLL(u) the reference's mean loss per token of message u.

    Optima (arXiv 2410.08115): a private code is what the base model would hardly have written. The reference is the
    policy before training, and it reads each message after what its speaker was told, as it was sampled; the authors'
    code shows the base model the message alone. A loss below `floor` nats counts as `floor`, so that a dialogue of a
    deterministic model is worth no more than `weight / floor`. A trajectory without a known log-prob gets nothing.
    """

    weight: float = 1.0
    floor: float = 0.1

    reads: ClassVar[frozenset[Column]] = frozenset({Column.REFERENCE})

    def __post_init__(self) -> None:
        if self.weight < 0 or self.floor <= 0:
            raise ValueError(f"weight must be at least 0 and floor positive, not {self.weight} and {self.floor}")

    def __call__(self, batch: Batch) -> Batch:
        if Column.REFERENCE.name not in batch.logp:
            raise ConfigurationError("Readability reads log-probs 'reference', which are missing")
        loss, owner = message_losses(batch)
        known = segment_count(owner, batch.trajectories) > 0
        worst = segment_extreme(loss, owner, batch.trajectories, largest=True)
        return with_return(batch, returns(batch) + torch.where(known, self.weight / worst.clamp(min=self.floor), 0.0))
