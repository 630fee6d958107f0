"""Credit against what the policy as it was before training would have earned.

Reads trajectories of source `baseline`, which `hocket.rollout.WithReference` has the reference play.
"""

from __future__ import annotations

from torch import Tensor

from hocket.core.batch import Batch


def baselines(batch: Batch) -> Tensor:
    """Which trajectories are of source `baseline`, `[N]` bool."""
    names = batch.names["source"]
    return batch.source == (names.index("baseline") if "baseline" in names else -1)
