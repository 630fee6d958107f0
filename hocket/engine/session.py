"""What one batch of continuations needs from a model: logits, row by row, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Session(Protocol):
    """Rows that are decoded in lockstep.

    Attributes:
        rows: which continuation each row of the logits belongs to, `[R]` in 0..N-1; N marks a row that fills a place.
        logits: of the next token, `[R, V]`.
    """

    rows: Tensor
    logits: Tensor

    def step(self, tokens: Tensor) -> None:
        """Appends one token `[R]` to every row."""
        ...

    def keep(self, alive: Tensor) -> None:
        """Drops rows that are not `alive` `[R]`; `rows` says what is left, in which order. `logits` are stale then."""
        ...


def distinct(contexts: Sequence[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Each context once, in order of first appearance, and which of them every entry is."""
    place: dict[tuple[int, ...], int] = {}
    index = [place.setdefault(context, len(place)) for context in contexts]
    return list(place), index
