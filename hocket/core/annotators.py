"""Columns of decisions that a pass of the policy fills, for the methods that ask for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.stages import Policy


@runtime_checkable
class Distributing(Protocol):
    """A policy that can show whole distributions."""

    def distributions(self, batch: Batch, decisions: Tensor) -> Callable[[Tensor], Tensor]:
        """Those at `decisions` `[K]`, as a function of places in it `[M]` that gives log-probs `[M, V]`."""
        ...


BUDGET = 2**23
"""How many numbers of distributions are held at once."""


def of_distributions(
    batch: Batch, policy: Policy, decisions: Tensor, compute: Callable[[Tensor, Tensor], Tensor]
) -> Tensor | None:
    """`compute` of log-probs `[K, V]` float64 and of the actions taken `[K]`, at the decisions, `[T]`; 0 elsewhere.

    None for a policy that shows no distributions over discrete actions.
    """
    values = torch.zeros(batch.decisions, dtype=torch.float64)
    if not len(decisions):
        return values
    if not isinstance(policy, Distributing) or batch.action.is_floating_point():
        return None
    logp = policy.distributions(batch, decisions)
    width = logp(torch.zeros(1, dtype=torch.long)).shape[-1]
    step = max(1, BUDGET // width)
    for start in range(0, len(decisions), step):
        rows = torch.arange(start, min(start + step, len(decisions)))
        values[decisions[rows]] = compute(logp(rows).double(), batch.action[decisions[rows]].long())
    return values


@dataclass(frozen=True)
class Annotator(Column):
    """A number per decision, `[T]`, in `Batch.annotations`; a stage asks for it in `reads`.

    It is declared beside the stage that reads it. The learner calls it without gradient, after the general columns.

    Attributes:
        compute: from the batch, the policy and the decisions that are the policy's own `[K]` to the column `[T]`, which
            is read at these decisions alone.
        moving: it changes as policies learn, so it is filled anew for each that has, before the next one's credit. The
            order in which policies learn is then drawn by the step's key.
    """

    compute: Callable[[Batch, Policy, Tensor], Tensor] = field(compare=False)
    moving: bool = field(default=False, compare=False)

    def read(self, batch: Batch, reader: str) -> Tensor:
        """The column `[T]`; raises `ConfigurationError` naming `reader` when the batch has none."""
        if self.name not in batch.annotations:
            raise ConfigurationError(f"{reader} reads the {self.name} of every decision, which is missing")
        return batch.annotations[self.name]
