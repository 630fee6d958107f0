"""Generalised advantage estimation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.signals import rewards_by_occurrence
from hocket.credit.formulas import generalised_advantages, whitened
from hocket.credit.reinforce import in_place
from hocket.stages import Credit


@dataclass(frozen=True)
class GAE(Credit):
    """`A_t = sum_k (gamma lam)^k delta_{t+k}`, `delta_t = r_t + gamma V_{t+1} - V_t` (arXiv 1506.02438).

    The chain runs over the decisions of a trajectory, across observation tokens between turns and forced decisions. The
    value after the last decision is that of the final state if the trajectory was truncated, and 0 if it terminated.
    The target of the value function is `A_t + V_t`, before whitening. Decisions of unknown value (of a policy without a
    value function, such as an outside model) are skipped: their rewards count for the decision before, and they get
    advantage 0.

    brax computes advantages as `r_t + gamma v_{t+1} - V_t`, v the lam-return, as in V-trace, whose traces stop one step
    later (`VTrace`). That is `delta_t + gamma A_{t+1}`; this class and the paper have `delta_t + gamma lam A_{t+1}`. At
    lam = 1 both agree.

    Attributes:
        gamma: discount per decision, in [0, 1]. lam: 0 gives one-step differences, 1 discounted returns minus V.
        whiten: `(A - mean) / (std + epsilon)` over the batch's occurrences of non-zero weight; the others get 0.
        epsilon: added to the deviation. ddof: 1 divides the sum of squares by one less than their number.

    Raises:
        ConfigurationError: on a call, when the batch has no values.
    """

    gamma: float = 1.0
    lam: float = 1.0
    whiten: bool = True
    epsilon: float = 1e-8
    ddof: int = 1

    gives_targets: ClassVar[bool] = True
    reads: ClassVar[frozenset[Column]] = frozenset({Column.VALUE})

    def __post_init__(self) -> None:
        for name in ("gamma", "lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1], not {getattr(self, name)}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages and value targets, both `[E]` float64."""
        if batch.value is None:
            raise ConfigurationError("GAE reads the value of every decision, but the batch has no column 'value'")
        occurrences = batch.occurrences
        values = batch.value.detach().double()[occurrences.decision]
        known = values_known(batch)
        chain = generalised_advantages(
            rewards_passed_back(rewards_by_occurrence(batch), known, occurrences.trajectory)[known],
            values[known],
            final_values(batch),
            occurrences.trajectory[known],
            gamma=self.gamma,
            lam=self.lam,
        )
        raw, used = in_place(chain, known), (occurrences.weight != 0) & known
        credit = whitened(raw[used], ddof=self.ddof, epsilon=self.epsilon) if self.whiten else raw[used]
        return replace(occurrences, advantage=in_place(credit, used), target=raw + values)


def values_known(batch: Batch) -> Tensor:
    """Whether the value of each occurrence's decision is known, `[E]` bool."""
    decision = batch.occurrences.decision
    return torch.ones(len(decision), dtype=torch.bool) if batch.valued is None else batch.valued[decision]


def rewards_passed_back(rewards: Tensor, known: Tensor, trajectory: Tensor) -> Tensor:
    """Rewards `[E]` with those of decisions not `known` moved to the last known decision before; dropped if none is."""
    place = torch.where(known, torch.arange(len(known)), torch.full((len(known),), -1))
    before = torch.cummax(place, 0).values if len(place) else place
    owner = before.clamp(min=0)
    assigned = (before >= 0) & (trajectory[owner] == trajectory)
    return torch.zeros_like(rewards).index_add(0, owner[assigned], rewards[assigned])


def final_values(batch: Batch) -> Tensor:
    """The value after each trajectory's end, `[N]` float64: that of the final state if truncated and known, else 0."""
    zeros = torch.zeros(batch.trajectories, dtype=torch.float64)
    return zeros if batch.final_value is None else torch.where(batch.truncated, batch.final_value.double(), zeros)
