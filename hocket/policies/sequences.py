"""From a batch's turn tree to the token sequences a language model reads, each asked decision exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.errors import HocketError

TOKEN_BUDGET = 8_192
"""What one forward and backward pass holds by default: padded tokens, long rows counted with their attention."""

ATTENTION_LENGTH = 512
"""At this length a row's attention scores weigh as much as its activations, so the row counts twice."""


@dataclass(frozen=True)
class Row:
    """One sequence to be read.

    Attributes:
        tokens: the input `[S]`, ending where the last asked decision is predicted.
        position: where each asked decision is predicted, `[K]` in 0..S-1.
        target: which entry of the result each belongs to, `[K]`: a decision, or a trajectory for final states.
    """

    tokens: NDArray[np.int64]
    position: NDArray[np.int64]
    target: NDArray[np.int64]

    @property
    def cost(self) -> float:
        return _cost(1, len(self.tokens))


class RowBlock(NamedTuple):
    """Rows read together: input ids `[B, S]`, padded on the right; flat places `[K]` in 0..B*S-1, row by row."""

    ids: Tensor
    place: Tensor


def rows_of(batch: Batch, decisions: Tensor) -> list[Row]:
    """A minimal set of sequences that predicts each of `decisions` `[K]` exactly once.

    The sequence of a turn is its ancestors' observations and actions, its own observation and its actions. A sequence
    predicts the decisions of all its turns, so only asked turns without an asked descendant are read; a turn that
    several of them extend is predicted in the first.

    Raises:
        HocketError: when the first decision of a root turn has nothing before it.
    """
    is_chosen = np.zeros(batch.decisions, np.bool_)
    is_chosen[decisions.cpu().numpy()] = True
    parent = batch.parent.tolist()
    spans = _decisions_by_turn(batch)
    actions = _actions(batch)
    wanted = [turn for turn in range(batch.turns) if is_chosen[spans[turn]].any()]
    claimed: set[int] = set()
    rows = []
    for leaf in _leaves(parent, wanted):
        chain = _chain(parent, leaf)
        unclaimed = [turn for turn in chain if turn not in claimed]
        claimed.update(unclaimed)
        rows.append(_row(batch, chain, spans, actions, is_chosen, frozenset(unclaimed)))
    return rows


def rows_after(batch: Batch, decisions: Tensor) -> list[Row]:
    """`rows_of` with each place at the decision's own token instead of before it, so that what is read knows of it."""
    return [
        Row(np.append(row.tokens, batch.action[row.target[row.position.argmax()]].item()), row.position + 1, row.target)
        for row in (rows_of(batch, decisions) if len(decisions) else [])
    ]


def final_rows(batch: Batch) -> list[Row]:
    """The whole sequence of each truncated trajectory, read at its last token; targets are trajectories."""
    last = batch.last()
    chosen = torch.nonzero(batch.truncated & (last >= 0)).flatten().tolist()
    parent, spans, actions = batch.parent.tolist(), _decisions_by_turn(batch), _actions(batch)
    rows = []
    for trajectory in chosen:
        turn = int(batch.turn[batch.occurrences.decision[last[trajectory]]])
        parts = [part for link in _chain(parent, turn) for part in (_observed(batch, link), actions[spans[link]])]
        tokens = np.concatenate(parts)
        rows.append(Row(tokens, np.array([len(tokens) - 1]), np.array([trajectory])))
    return rows


def blocks_of(rows: Sequence[Row], budget: float, steady: int | None = None) -> list[list[Row]]:
    """Splits rows, longest first, so that each part's padded cost stays within `budget`; at least one row each.

    Rows longer than `steady` are padded to no other length.
    """
    parts: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: -len(row.tokens)):
        length = len(parts[-1][0].tokens) if parts else 0
        alike = steady is None or length <= steady or length == len(row.tokens)
        if parts and alike and _cost(len(parts[-1]) + 1, length) <= budget:
            parts[-1].append(row)
        else:
            parts.append([row])
    return parts


def padded(rows: Sequence[Row]) -> RowBlock:
    """Rows side by side. What stands right of a row's end is never seen by it: attention is causal."""
    width = max(len(row.tokens) for row in rows)
    ids = np.zeros((len(rows), width), np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row.tokens)] = row.tokens
    place = np.concatenate([number * width + row.position for number, row in enumerate(rows)])
    return RowBlock(torch.from_numpy(ids), torch.from_numpy(place))


def targets(rows: Sequence[Row]) -> Tensor:
    """Which entry of the result each asked place of `rows` belongs to, row by row, `[K]`."""
    return torch.from_numpy(np.concatenate([row.target for row in rows]))


def _cost(rows: int, length: int) -> float:
    return rows * length * (1 + length / ATTENTION_LENGTH)


def _decisions_by_turn(batch: Batch) -> list[NDArray[np.int64]]:
    """The decisions of each turn in time order."""
    turn = batch.turn.cpu().numpy()
    order = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn, minlength=batch.turns))
    return np.split(order, ends[:-1]) if batch.turns else []


def _leaves(parent: list[int], wanted: list[int]) -> list[int]:
    """Those of `wanted` that none of the others extends."""
    extended: set[int] = set()
    for turn in wanted:
        link = parent[turn]
        while link >= 0 and link not in extended:
            extended.add(link)
            link = parent[link]
    return [turn for turn in wanted if turn not in extended]


def _chain(parent: list[int], turn: int) -> list[int]:
    chain = [turn]
    while parent[chain[-1]] >= 0:
        chain.append(parent[chain[-1]])
    return chain[::-1]


def _actions(batch: Batch) -> NDArray[np.int64]:
    return batch.tokens()


def _observed(batch: Batch, turn: int) -> NDArray[np.int64]:
    return np.asarray(batch.observation[turn], np.int64)


def _row(
    batch: Batch,
    chain: list[int],
    spans: list[NDArray[np.int64]],
    actions: NDArray[np.int64],
    is_chosen: NDArray[np.bool_],
    unclaimed: frozenset[int],
) -> Row:
    parts: list[NDArray[np.int64]] = []
    position: list[NDArray[np.int64]] = []
    target: list[NDArray[np.int64]] = []
    length = 0
    for turn in chain:
        span, observed = spans[turn], _observed(batch, turn)
        length += len(observed)
        if turn in unclaimed:
            chosen = np.flatnonzero(is_chosen[span])
            position.append(length - 1 + chosen)
            target.append(span[chosen])
        parts += [observed, actions[span]]
        length += len(span)
    places = np.concatenate(position)
    if places.min() < 0:
        agent = batch.names["agent"][int(batch.agent[chain[0]])]
        raise HocketError(
            f"a turn of agent {agent!r} begins without any context token, so its first token has no prediction; "
            "give the turn a prompt"
        )
    return Row(np.concatenate(parts)[: int(places.max()) + 1], places, np.concatenate(target))
