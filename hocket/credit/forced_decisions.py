"""Credit where some decisions were forced: made by a person or a search, for the policy to imitate."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from hocket.core.batch import Batch, Occurrences
from hocket.credit.gae import GAE
from hocket.stages import Credit


@dataclass(frozen=True)
class TaughtToo(Credit):
    """Credit `of` the policy's own decisions; forced ones count too, with advantage 0, as those to be imitated."""

    of: Credit = GAE(gamma=1.0, lam=0.95, whiten=True)

    def __call__(self, batch: Batch) -> Occurrences:
        occurrences = self.of(batch)
        taught = batch.forced[occurrences.decision]
        weight = torch.where(taught, torch.ones_like(occurrences.weight), occurrences.weight)
        return replace(occurrences, weight=weight)
