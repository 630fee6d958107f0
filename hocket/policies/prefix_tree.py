"""Sequences as a tree of shared prefixes: every distinct token is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.policies.sequences import ATTENTION_LENGTH, Row

_LEAST_SAVED = 8
"""A prefix becomes a node of its own when that saves at least so many tokens."""


class TokenRun(NamedTuple):
    """A run of tokens that the same sequences read. `path` `[L]`: the flat places of all it sees, itself included."""

    path: NDArray[np.int64]
    own: int


@dataclass(frozen=True)
class PrefixTree:
    """The tokens of some sequences, each shared one once.

    Attributes:
        token, depth: the token at each flat place and its position in its sequences, `[M]`.
        nodes: the runs; together their own tokens are 0..M-1 in order.
        place: where each asked decision of each row is predicted, row by row, `[K]` in 0..M-1.
        paths: the flat places of each row's tokens.
    """

    token: NDArray[np.int64]
    depth: NDArray[np.int64]
    nodes: list[TokenRun]
    place: NDArray[np.int64]
    paths: list[NDArray[np.int64]]


def _sorted(rows: Sequence[Row]) -> tuple[list[int], list[int]]:
    """An order of rows in which equal prefixes stand together, and how many tokens each shares with the one before."""
    order = sorted(range(len(rows)), key=lambda number: rows[number].tokens.tobytes())
    return order, [0, *(_common(rows[a].tokens, rows[b].tokens) for a, b in pairwise(order))][: len(order)]


def _common(left: NDArray[np.int64], right: NDArray[np.int64]) -> int:
    length = min(len(left), len(right))
    apart = left[:length] != right[:length]
    first = int(apart.argmax()) if length else 0
    return first if length and apart[first] else length


def tree_parts(rows: Sequence[Row], budget: float) -> list[list[Row]]:
    """Splits rows so that each part's tree stays within `budget` tokens (attention counted); at least one row each."""
    parts: list[list[Row]] = []
    cost = 0.0
    for number, shared in zip(*_sorted(rows), strict=True):
        row = rows[number]
        rate = 1 + len(row.tokens) / ATTENTION_LENGTH
        more = (len(row.tokens) - shared) * rate
        if parts and cost + more <= budget:
            parts[-1].append(row)
            cost += more
        else:
            parts.append([row])
            cost = len(row.tokens) * rate
    return parts


def tree_of(rows: Sequence[Row]) -> PrefixTree:
    """The tree of some rows."""
    order, shared = _sorted(rows)
    nodes: list[TokenRun] = []
    tokens: list[NDArray[np.int64]] = []
    depths: list[NDArray[np.int64]] = []
    paths = [np.zeros(0, np.int64)] * len(rows)
    total = 0
    # Rows first..last-1 agree on `depth` tokens at least, of which `path` holds the places.
    open_parts = [(0, len(order), np.zeros(0, np.int64))]
    while open_parts:
        first, last, path = open_parts.pop()
        row, depth = rows[order[first]], len(path)
        alone = last - first == 1
        end = len(row.tokens) if alone else min(shared[first + 1 : last])
        if end > depth and (alone or (end - depth) * (last - first - 1) >= _LEAST_SAVED):
            path = np.concatenate([path, np.arange(total, total + end - depth)])
            nodes.append(TokenRun(path, end - depth))
            tokens.append(row.tokens[depth:end])
            depths.append(np.arange(depth, end))
            total += end - depth
        if alone:
            paths[order[first]] = path
            continue
        cuts = [first, *(n for n in range(first + 1, last) if shared[n] == end), last]
        open_parts += [(a, b, path) for a, b in zip(cuts[-2::-1], cuts[:0:-1], strict=True)]
    return PrefixTree(
        np.concatenate(tokens),
        np.concatenate(depths),
        nodes,
        np.concatenate([path[row.position] for row, path in zip(rows, paths, strict=True)]),
        paths,
    )
