"""The rows of a batch that decodes: one per response, with its place and its pages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hocket.engine.pages import PAGE, Pages


class DecodeBatch:
    """The rows that decode, as columns of which the first `count` entries are in use.

    Attributes:
        request: the number of the request that a row answers. owner: the number of its policy.
        token: the last drawn token, not yet in the context. position: the number of tokens in the context.
        table: the row's pages, as many as its position needs. state: the slot of its state, in layers that have one.
    """

    def __init__(self, table: Pages) -> None:
        most = len(table)
        self.request = np.zeros(most, np.int64)
        self.owner = np.zeros(most, np.int32)
        self.token = np.zeros(most, np.int64)
        self.position = np.zeros(most, np.int32)
        self.state = np.zeros(most, np.int32)
        self.table = table
        self.count = 0

    def moved(self, table: Pages) -> DecodeBatch:
        """The same rows with a larger table."""
        new, count, width = DecodeBatch(table), self.count, self.table.shape[1]
        for name in ("request", "owner", "token", "position", "state"):
            getattr(new, name)[:count] = getattr(self, name)[:count]
        new.table[:count, :width] = self.table[:count]
        new.count = count
        return new

    def add(self, request: int, owner: int, position: int, pages: Sequence[int], state: int = 0) -> None:
        self.state[self.count] = state
        self.request[self.count] = request
        self.owner[self.count] = owner
        self.position[self.count] = position
        self.table[self.count, : len(pages)] = pages
        self.count += 1

    def pages(self, row: int) -> Pages:
        """The pages of the row's context."""
        return self.table[row, : -(-int(self.position[row]) // PAGE)]

    def arrange(self, order: NDArray[np.int64]) -> None:
        """Keeps the rows in `order`, in this order."""
        width = int(self.position[: self.count].max(initial=0)) // PAGE + 1
        self.count = len(order)
        for column in (self.request, self.owner, self.token, self.position, self.state, self.table[:, :width]):
            column[: self.count] = column[order]

    def siblings(self) -> NDArray[np.int64]:
        """An order in which rows of one policy, and rows that share pages, are adjacent: shared pages are read once."""
        keys = [(int(self.owner[row]), self.pages(row).tobytes()) for row in range(self.count)]
        return np.array(sorted(range(self.count), key=keys.__getitem__), np.int64)
