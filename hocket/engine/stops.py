"""Stop strings: the tokens at which the text of a response completes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


class StopStrings:
    """Finds stop strings in growing responses. A cheap test per token spares most of the decoding."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._pieces: dict[int, str] = {}

    def may_complete(self, token: int, stops: Sequence[str]) -> bool:
        """Whether `token` could complete one of `stops`; a cheap test that spares gathering the response."""
        return any(self._may_end(token, stop) for stop in stops)

    def completed(self, tokens: Sequence[int], stops: Sequence[str], imposed: int = 0) -> bool:
        """Whether the last of `tokens` completes one of `stops`.

        The first `imposed` tokens were not sampled: a stop string that lies completely within them does not count.
        """
        candidates = [stop for stop in stops if self._may_end(tokens[-1], stop)]
        if not candidates:
            return False
        # A character has at most four tokens; a few more give a decoder the context that it needs.
        reach = 4 * max(len(stop) for stop in candidates) + 4
        text = self._text(tokens[-reach:])
        present = [stop for stop in candidates if stop in text]
        if not present or imposed == 0:
            return bool(present)
        before = self._text(tokens[-reach:-1])
        return any(text.count(stop) > before.count(stop) for stop in present)

    def _may_end(self, token: int, stop: str) -> bool:
        """Whether `token` could complete `stop`: it contains the last character, or a part of it."""
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._text([token])
        return stop[-1] in piece or _UNFINISHED in piece or not piece or stop[-1].isspace()

    def _text(self, tokens: Sequence[int]) -> str:
        decoded: str = self._tokenizer.decode(
            list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return decoded
