"""Rows of a store as sequences: each ends at a row that was drawn, and holds those before it in its episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch
from hocket.core.stored_rows import GOES_ON


def ending_at(
    last: NDArray[Any], length: int, step: NDArray[Any], added: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of the rows of sequences, `[R]` one after the other, and how many rows each has, `[M]`.

    Args:
        last: the places of the sequences' last rows, `[M]`. length: the most rows of a sequence.
        step: the place of every row of the ring in its episode, `[size]`. added: rows added to the ring so far.
    """
    size = len(step)
    behind = np.arange(length - 1, -1, -1)
    # Rows that are still kept before a row, so that a sequence does not go over the ring's seam.
    oldest_first = (last - added) % size if added >= size else last
    place = (last[:, None] - behind) % size
    inside = (behind <= oldest_first[:, None]) & (step[place] == step[last][:, None] - behind)
    inside = np.flip(np.logical_and.accumulate(np.flip(inside, 1), axis=1), 1)  # Up to the first row that is missing.
    return place[inside], inside.sum(1)


def in_sequences(batch: Batch, counts: Sequence[NDArray[np.int64]]) -> Batch:
    """A drawn batch whose turns and trajectories are sequences, of so many rows each, `[M]` for every policy."""
    rows = torch.from_numpy(np.concatenate(counts))
    number = len(rows)
    policy = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor([len(part) for part in counts]))
    every = torch.arange(number)
    sequence = torch.repeat_interleave(every, rows)
    ends = torch.cumsum(rows, 0) - 1

    def split(held: Sequence[NDArray[Any] | None]) -> list[NDArray[Any]]:
        return [
            part
            for array, sizes in zip(held, counts, strict=bool(held))
            if array is not None
            for part in np.split(array, np.cumsum(sizes)[:-1])
        ]

    zeros = torch.zeros(number, dtype=torch.long)
    return replace(
        batch,
        turn=sequence,
        parent=torch.full((number,), -1, dtype=torch.long),
        agent=policy,
        role=policy,
        policy=policy,
        state=policy,
        index=zeros,
        observation=split(batch.observation),
        allowed=split(batch.allowed),
        scenario=zeros,
        source=zeros,
        order=every,
        terminated=(GOES_ON.read(batch, "the store") == 0)[ends],
        truncated=torch.zeros(number, dtype=torch.bool),
        occurrences=replace(batch.occurrences, trajectory=sequence),
    )
