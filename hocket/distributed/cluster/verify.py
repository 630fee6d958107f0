"""Whether samples are what their keys and weights give, by drawing some again elsewhere: `--verify 0.1`.

Every process of a run has the same kernels, so what is drawn again must be equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hocket.distributed.cluster.sampler_worker import Plays
from hocket.types import Trajectory, Turn


def picked(plays: Plays, share: float) -> tuple[Plays, list[int]]:
    """About this share of the assignments, by key, and which of all trajectories are theirs."""
    some, mine, start = [], list[int](), 0
    for play in plays.plays:
        checked = []
        for assignment in play.assignments:
            if play.key.derive("verify", assignment.scenario.id, assignment.first).word < share * 2**64:
                checked.append(assignment)
                mine.extend(range(start, start + assignment.samples))
            start += assignment.samples
        if checked:
            some.append(replace(play, assignments=checked))
    return Plays(some), mine


def unlike(left: Sequence[Trajectory], right: Sequence[Trajectory]) -> str | None:
    """The first thing in which two lists of trajectories differ, in words; None where they are equal."""
    if len(left) != len(right):
        return f"{len(left)} samples for {len(right)}"
    for ours, other in zip(left, right, strict=True):
        what = f"sample {other.sample} of {other.scenario.id}"
        if (ours.scenario.id, ours.sample, len(ours.turns)) != (other.scenario.id, other.sample, len(other.turns)):
            return f"another episode for {what}"
        for number, (mine, theirs) in enumerate(zip(ours.turns, other.turns, strict=True), 1):
            part = _unlike(mine, theirs)
            if part is not None:
                return f"other {part} in turn {number} of {what}"
    return None


def _unlike(ours: Turn, theirs: Turn) -> str | None:
    """What differs in two turns."""
    pairs: dict[str, tuple[NDArray[np.generic] | None, NDArray[np.generic] | None]] = {
        "observations": (ours.observation, theirs.observation),
        "actions": (ours.action, theirs.action),
        "log-probs": (ours.logp, theirs.logp),
    }
    return next((name for name, (left, right) in pairs.items() if not _same(left, right)), None)


def _same(left: NDArray[np.generic] | None, right: NDArray[np.generic] | None) -> bool:
    if left is None or right is None:
        return left is right
    return left.shape == right.shape and left.dtype == right.dtype and left.tobytes() == right.tobytes()
