"""The interface of a model to a batch of continuations: logits, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Session(Protocol):
    """Rows that are decoded in lockstep.

    Attributes:
        rows: the continuation of each row of the logits, `[R]` in 0..N-1; N marks a vacant row.
        logits: of the next token, `[R, V]`.
    """

    rows: Tensor
    logits: Tensor

    def step(self, tokens: Tensor) -> None:
        """Appends one token `[R]` to every row."""
        ...

    def keep(self, alive: Tensor) -> None:
        """Drops rows that are not `alive` `[R]`; `rows` has the remaining ones in order. `logits` are stale then."""
        ...


def distinct(contexts: Sequence[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], list[int]]:
    """The distinct contexts in order of first appearance, and the index of each entry's context."""
    place: dict[tuple[int, ...], int] = {}
    index = [place.setdefault(context, len(place)) for context in contexts]
    return list(place), index
