"""Drafts of next tokens by n-gram lookup: what followed the same tokens earlier in the same text.

Saxena 2023 (prompt lookup decoding), Yang et al. 2023 (LLMA). A pass reads a row's last token and its draft together; a
drafted token stays if it is the one that is drawn in its place. Draws take no randomness but the key and the number of
their token, so the tokens are those without drafts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

NGRAM = 3
"""Tokens that have to be equal."""

_Index = Mapping[tuple[int, ...], int]


class _Text:
    """A context with the response so far.

    Attributes:
        place: of the token that followed the last tokens earlier on; None if they are new.
    """

    def __init__(self, context: tuple[int, ...]) -> None:
        self.tokens = list(context)
        self._before, self.place = _indexed(context)
        self._ends: dict[tuple[int, ...], int] = {}

    def add(self, token: int) -> None:
        self.tokens.append(token)
        last = tuple(self.tokens[-NGRAM:])
        place = self._ends.get(last)
        self.place = self._before.get(last) if place is None else place
        self._ends[last] = len(self.tokens)


@lru_cache(maxsize=64)
def _indexed(context: tuple[int, ...]) -> tuple[_Index, int | None]:
    """Where each n-gram of a context ends last, and where its last one ended before."""
    ends: dict[tuple[int, ...], int] = {}
    place = None
    for end in range(NGRAM, len(context) + 1):
        last = context[end - NGRAM : end]
        place = ends.get(last)
        ends[last] = end
    return ends, place


class Drafts:
    """The texts of rows by request number, and what may come next in them.

    Args:
        most: tokens of a draft.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._texts: dict[int, _Text] = {}

    def begin(self, number: int, context: tuple[int, ...]) -> None:
        """Begins the text of a request."""
        self._texts[number] = _Text(context)

    def drop(self, number: int) -> None:
        """Forgets it."""
        del self._texts[number]

    def add(self, numbers: Sequence[int], tokens: Sequence[int]) -> None:
        """Adds a token to each of some texts."""
        for number, token in zip(numbers, tokens, strict=True):
            self._texts[number].add(token)

    def of(self, number: int, room: int) -> list[int]:
        """Up to `room` tokens that may come next; none where the last tokens are new."""
        text = self._texts[number]
        if text.place is None:
            return []
        return text.tokens[text.place : text.place + min(room, self.most)]
