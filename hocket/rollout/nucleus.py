"""Independent samples with actions restricted to a slowly changing nucleus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience

DELAYED = "delayed"
"""The name of the policy copy that defines masks."""


def nucleus(logp: Tensor, mass: float) -> Tensor:
    """The smallest set of actions that has at least `mass` in each row, `[R, V]` bool (arXiv 1904.09751).

    In a tie the lower index comes first. `logp` `[R, V]` is normalised; a mass of 1 allows all actions.
    """
    if mass >= 1:
        return torch.ones_like(logp, dtype=torch.bool)
    ranked, order = logp.sort(dim=1, descending=True, stable=True)
    probability = ranked.double().exp()
    # An action stays while those ranked above it have not yet reached the mass.
    keep = torch.cumsum(probability, 1) - probability < mass
    return torch.zeros_like(keep).scatter(1, order, keep)


@dataclass(frozen=True)
class NucleusMask:
    """Restricts actions to the nucleus of `mass` under the policy's delayed copy; a `hocket.types.ActionMask`."""

    mass: float = 0.9

    copy: ClassVar[str] = DELAYED

    def __post_init__(self) -> None:
        if not 0 < self.mass <= 1:
            raise ValueError(f"mass must be in (0, 1], not {self.mass}")

    def allowed(self, logp: Tensor) -> Tensor:
        """The nucleus of each row of `logp` `[R, V]`."""
        return nucleus(logp, self.mass)


@dataclass(frozen=True)
class DelayedNucleus(Rollout):
    """`samples` per scenario, with actions from the nucleus of the policy's delayed copy (NLPO, arXiv 2210.01241).

    The nucleus is the smallest set of actions with at least `mass` under the copy, which an update such as
    `hocket.update.DelayedMaskStep` refreshes. The sets are recorded, and the learner applies them again.
    """

    samples: int = 1
    mass: float = 0.9

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0 < self.mass <= 1:
            raise ValueError(f"samples must be at least 1 and mass in (0, 1], not {self.samples} and {self.mass}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        mask = NucleusMask(self.mass) if self.mass < 1 else None
        trajectories = await play(
            [replace(asking, samples=self.samples, decoding=replace(asking.decoding, mask=mask)) for asking in asked]
        )
        await score(trajectories)
        return Experience(trajectories)
