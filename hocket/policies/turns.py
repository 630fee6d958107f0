"""Turns of a batch as sequences, for networks that remember."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch


def sequences(batch: Batch, chosen: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The turns in which decisions were chosen, from their beginnings on, and where in them each of these stands.

    Decisions `[U, L]`; where a turn is shorter its last one fills the row, which nothing before depends on.
    """
    lengths = torch.bincount(batch.turn, minlength=batch.turns)
    starts = torch.cumsum(lengths, 0) - lengths
    turns, row = torch.unique(batch.turn[chosen], return_inverse=True)
    position = chosen - starts[batch.turn[chosen]]
    longest = int(position.max()) + 1 if len(chosen) else 0
    index = starts[turns][:, None] + torch.minimum(torch.arange(longest), lengths[turns][:, None] - 1)
    return index, (row, position)


def before(batch: Batch, rows: Sequence[int]) -> list[Tensor]:
    """The decisions of the turn in which each of these trajectories ended."""
    last, turn = batch.last().tolist(), batch.turn[batch.occurrences.decision]
    return [torch.nonzero(batch.turn == turn[last[row]]).flatten() if last[row] >= 0 else turn[:0] for row in rows]


def at_ends(network: nn.Module, sequences: Sequence[Tensor]) -> Tensor:
    """What a network gives at the end of each of R sequences, `[R, outputs]`."""
    outputs: Tensor = network(nn.utils.rnn.pad_sequence(list(sequences), batch_first=True))
    return outputs[torch.arange(len(sequences)), torch.tensor([len(sequence) - 1 for sequence in sequences])]


def of_whole_turns(turn: Tensor, decisions: Tensor, rows: int) -> list[Tensor]:
    """Rising decisions and the turn of each, `[K]`, in parts of whole turns, of some `rows` or one turn."""
    _, sizes = torch.unique_consecutive(turn, return_counts=True)
    parts, held = [0], 0
    for size in sizes.tolist():
        if held and held + size > rows:
            parts.append(0)
            held = 0
        parts[-1] += size
        held += size
    return list(torch.split(decisions, parts))


def in_turns(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Of every occurrence its turn, of U, and its place there, `[E]`; how long the turns are, `[U]`."""
    turn = batch.turn[batch.occurrences.decision]
    _, rows, length = torch.unique_consecutive(turn, return_inverse=True, return_counts=True)
    starts = torch.cumsum(length, 0) - length
    return rows, torch.arange(len(rows)) - starts[rows], length


def spread(values: Tensor, rows: Tensor, place: Tensor, length: Tensor) -> Tensor:
    """`[U, L, D]` of `[E, D]` by what `in_turns` tells; 0 after a turn's end."""
    shape = (len(length), int(length.max()) if len(length) else 0, values.shape[1])
    return values.new_zeros(shape).index_put((rows, place), values)
