"""Who says what a transcript is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hocket.core.evaluating import evaluate_detached
from hocket.core.packing import pack
from hocket.rollout.message_search import outcome
from hocket.stages import Policy
from hocket.types import Quantity, Trajectory


@dataclass(frozen=True, eq=False)
class HeadValue:
    """tanh of a policy's value head at the last decision of each transcript: a trained process reward model."""

    policy: Policy

    async def __call__(self, episodes: Sequence[Trajectory]) -> list[float]:
        if not episodes:
            return []
        batch = pack(episodes)
        last = batch.last()
        places = batch.occurrences.decision[last.clamp(min=0)]
        wanted: torch.Tensor = torch.unique(places)
        now = evaluate_detached(self.policy, batch, {Quantity.VALUE}, wanted)
        said = now.get(Quantity.VALUE)[places].tolist()
        return [math.tanh(one) if at >= 0 else 0.0 for one, at in zip(said, last.tolist(), strict=True)]


async def verdict(episodes: Sequence[Trajectory]) -> list[float]:
    """What the workflow itself gave, +1 for right and -1 for wrong: the outcome where it is known."""
    return [outcome(one) for one in episodes]
