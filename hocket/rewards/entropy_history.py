"""What the policy's entropy usually was at each turn, for regularisers that keep it near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from hocket.core.method_columns import USUAL_ENTROPY
from hocket.errors import ConfigurationError
from hocket.segments import segment_count, segment_mean
from hocket.stages import Shaping, State
from hocket.types import Batch, Column


@dataclass(frozen=True)
class EntropyHistory(Shaping):
    """Writes the running mean of entropy per turn index into the column `usual_entropy`, then takes in this step.

    Stateful: for each turn index the sum of earlier steps' mean entropies, and how many steps had the turn. A step's
    mean is over its counted decisions at that turn, nats. For `hocket.objectives.EntropyCorridor` (EPO, arXiv
    2509.22576), as losses have no memory. A turn that no earlier step had has no usual entropy.

    Raises:
        ConfigurationError: on a call, when the batch has no entropies.
    """

    reads: ClassVar[frozenset[Column]] = frozenset({Column.ENTROPY})

    def init(self) -> State:
        """Nothing was seen."""
        return {"sum": [], "steps": []}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        if batch.entropy is None:
            raise ConfigurationError("EntropyHistory reads the entropy of every decision, which the batch lacks")
        known = [total / steps if steps else None for total, steps in zip(state["sum"], state["steps"], strict=True)]
        seen = batch.occurrences
        used = seen.weight != 0
        index = batch.index[batch.turn[seen.decision[used]]]
        size = max(len(known), int(index.max()) + 1 if len(index) else 0)
        mean = segment_mean(batch.entropy.detach().double()[seen.decision[used]], index, size)
        met = segment_count(index, size) > 0
        before = [list(column) + [0.0] * (size - len(column)) for column in (state["sum"], state["steps"])]
        total = (torch.tensor(before[0], dtype=torch.float64) + torch.where(met, mean, 0.0)).tolist()
        steps = (torch.tensor(before[1], dtype=torch.float64) + met).tolist()
        usual = [known] * batch.trajectories
        return batch.but(info={**batch.info, USUAL_ENTROPY.name: usual}), {"sum": total, "steps": steps}
