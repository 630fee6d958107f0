"""Columns of decisions that a pass of the policy fills, for the methods that ask for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

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


@dataclass(frozen=True)
class Annotator(Column):
    """A number per decision, `[T]`, in `Batch.annotations`; a stage asks for it in `reads`.

    It is declared beside the stage that reads it. The learner calls it without gradient, after the general columns.

    Attributes:
        compute: from the batch, the policy and the decisions that are the policy's own `[K]` to the column `[T]`, which
            is read at these decisions alone.
    """

    compute: Callable[[Batch, Policy, Tensor], Tensor] = field(compare=False)

    def read(self, batch: Batch, reader: str) -> Tensor:
        """The column `[T]`; raises `ConfigurationError` naming `reader` when the batch has none."""
        if self.name not in batch.annotations:
            raise ConfigurationError(f"{reader} reads the {self.name} of every decision, which is missing")
        return batch.annotations[self.name]
