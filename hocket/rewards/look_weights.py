"""Weights that make sums of log-probs of looks at an answer its ELBO."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hocket.core.batch import Batch
from hocket.core.elbo_masks import LOOK_WEIGHTS
from hocket.stages import Shaping


@dataclass(frozen=True)
class LookWeights(Shaping):
    """Multiplies the weight of every decision by that of its look, so that weighted sums of log-probs are ELBOs.

    Raises:
        ConfigurationError: on a call, for experience of a rollout without looks.
    """

    def __call__(self, batch: Batch) -> Batch:
        occurrences, rows = batch.occurrences, LOOK_WEIGHTS.read(batch, "LookWeights")
        look = batch.index[batch.turn[occurrences.decision]]
        pairs = zip(occurrences.trajectory.tolist(), look.tolist(), strict=True)
        weight = torch.tensor([rows[trajectory][place] for trajectory, place in pairs], dtype=torch.float64)
        return batch.credited(weight=occurrences.weight * weight.to(occurrences.weight.dtype))
