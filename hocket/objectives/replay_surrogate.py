"""A clipped surrogate with metrics of replayed decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from hocket.core.batch import Batch
from hocket.objectives.aggregate import share
from hocket.objectives.ratios import saturated
from hocket.objectives.surrogate import ClippedSurrogate, cut
from hocket.types import Evaluation, Terms


@dataclass(frozen=True)
class ReplayedSurrogate(ClippedSurrogate):
    """`ClippedSurrogate`, where ratios of replayed decisions are to the policy that sampled them.

    Additional metrics: `replay/clipped` is the share of replayed decisions whose gradient is clipped, and
    `replay/clipped/old` that share among the older half, by the version of the weights.
    """

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        terms, occurrences = super().__call__(now, batch), batch.occurrences
        names = batch.names["source"]
        if "replay" not in names:
            return terms
        advantage = occurrences.advantage.detach().to(now.logp.dtype)
        gone = cut(saturated(self.log_ratio(now, batch)).exp().detach(), advantage, self.low, self.high, self.dual)
        active = (occurrences.weight != 0) & (occurrences.advantage != 0)
        replayed = active & (batch.source[occurrences.trajectory] == names.index("replay"))
        version = batch.version[occurrences.decision]
        middle = version[replayed].double().median() if replayed.any() else torch.tensor(0.0)
        metrics = {
            "replay/clipped": share(gone, replayed),
            "replay/clipped/old": share(gone, replayed & (version <= middle)),
        }
        return replace(terms, metrics={**terms.metrics, **metrics})
