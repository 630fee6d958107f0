"""What a transcript is worth by a value function and policy that satisfy the soft Bellman equation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hocket.core.evaluating import evaluate_detached
from hocket.core.packing import pack
from hocket.stages import Policy
from hocket.types import Quantity, Trajectory


@dataclass(frozen=True, eq=False)
class ConsistentValue:
    """`V_t + beta (log pi - log pi_ref)` at the last decision t of each transcript: what V is after it.

    V before the next step cannot be read while nobody has asked for that step; by the equation that OREO (arXiv
    2412.16145) fits, `V_{t+1} = V_t + beta l_t - r_t`, it is this number where nothing was earned yet, and the whole
    reward at the end.
    """

    policy: Policy
    reference: Policy
    beta: float

    async def __call__(self, episodes: Sequence[Trajectory]) -> list[float]:
        if not episodes:
            return []
        batch = pack(episodes)
        last = batch.last()
        places = batch.occurrences.decision[last.clamp(min=0)]
        wanted: torch.Tensor = torch.unique(places)
        now = evaluate_detached(self.policy, batch, {Quantity.LOGP, Quantity.VALUE}, wanted)
        before = evaluate_detached(self.reference, batch, {Quantity.LOGP}, wanted)
        said = now.get(Quantity.VALUE) + self.beta * (now.logp - before.logp)
        return [one if at >= 0 else 0.0 for one, at in zip(said[places].tolist(), last.tolist(), strict=True)]
