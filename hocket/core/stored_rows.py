"""Columns of batches that were drawn from a store: a row is a decision with what followed from it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError


@dataclass(frozen=True)
class StoredColumn(Column):
    """A column of stored rows, `[T, ..]`, in `Batch.annotations`."""

    def read(self, batch: Batch, reader: str) -> Tensor:
        """The column `[T, ..]`; raises `ConfigurationError` naming `reader` for a batch that no store has drawn."""
        if self.name not in batch.annotations:
            raise ConfigurationError(
                f"{reader} reads {self.name}, which batches have that a store has drawn; set store to "
                "hocket.rollout.Transitions"
            )
        return batch.annotations[self.name]


FOLLOWING = StoredColumn("following", "The observation n decisions later, or the final one, [T, O].")
PAID = StoredColumn("paid", "What these n decisions paid, discounted, [T].")
GOES_ON = StoredColumn("goes_on", "The factor of the value of what follows, [T]: gamma^n, 0 after termination.")
ALLOWED_THEN = StoredColumn("allowed_then", "The actions that will be allowed, [T, A] bool.")
NOISE = StoredColumn("noise", "Standard normal numbers for actions that are drawn anew, [T, noises, A].")
STEP = StoredColumn("step", "The place of the row in its episode, [T]; of stores with sequences.")
TO_GO = StoredColumn("to_go", "What the episode pays from this row on, undiscounted, [T]; of stores with sequences.")
KIND = StoredColumn("kind", "The kind of recorded decision, [T], 1 and above; of data that state kinds.")
PLACE = StoredColumn("place", "The place of the row in its store, [T].")
JOINT_THEN = StoredColumn("joint_then", "The joint state n moments later, or the final one, [T, S].")
TEAM_PAID = StoredColumn("team_paid", "What these n moments paid, discounted, as a mean over all agents, [T].")
PRESENT = StoredColumn("present", "Whether the agent had not ended before the moment, [T] bool.")
WORD = StoredColumn("word", "A random word for numbers that are drawn anew, [T] int64.")


def moments(batch: Batch) -> Tensor:
    """The row of each decision of a joint batch, `[T]`: every turn of such a batch has a decision for every row."""
    if batch.taken is not None:
        return moments(batch.taken.whole)[batch.taken.decision]
    first = torch.searchsorted(batch.turn, torch.arange(batch.turns))
    return torch.arange(batch.decisions) - first[batch.turn]
