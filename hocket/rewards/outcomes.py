"""Who is right, where an edit of the reward asks it of what was earned so far."""

from __future__ import annotations

from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.signals import returns

RIGHT = 0.5
"""An answer is right when its return before shaping is at least this: verdicts are 1 and 0."""


def right(batch: Batch, least: float = RIGHT) -> Tensor:
    """Trajectories whose return is at least `least`, `[N]` bool."""
    return returns(batch) >= least
