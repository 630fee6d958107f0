"""Control tokens in what others write: a tool's output that spells `<|end|>` says these letters and ends no turn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private-use characters that no template writes."""


class ControlTokens:
    """Marks control tokens in the content of messages, so that they are encoded letter by letter.

    A template writes its own control tokens around the marked content, and those stay what they are. Added tokens that
    are not special, such as `<think>`, are words that anybody may use.

    Args:
        special: texts of the tokenizer's special tokens.
    """

    def __init__(self, special: Iterable[str]) -> None:
        self._all = _any_of(special)
        self._of_assistant = self._all
        self._marked = re.compile(f"{_OPEN}({self._all.pattern}){_CLOSE}") if self._all else None

    def keep_assistant(self, asides: Iterable[str]) -> None:
        """From now on assistant messages may hold special tokens that `asides` have not, such as that of a call."""
        if self._all is not None:
            self._of_assistant = _any_of(self._all.findall("\n".join(asides)))

    def mark(self, value: Any, role: str = "") -> Any:
        """A message, a tool, or a text of one, with marks around every control token."""
        if isinstance(value, str):
            tokens = self._of_assistant if role == "assistant" else self._all
            return tokens.sub(rf"{_OPEN}\g<0>{_CLOSE}", value) if tokens is not None else value
        if isinstance(value, Mapping):
            role = role or str(value.get("role", ""))
            return {self.mark(name, role): self.mark(one, role) for name, one in value.items()}
        return [self.mark(one, role) for one in value] if isinstance(value, (list, tuple)) else value

    def pieces(self, text: str) -> Iterator[tuple[str, bool]]:
        """A rendered text in pieces, each with whether it is a marked token: to be encoded as plain letters."""
        parts = self._marked.split(text) if self._marked is not None else [text]
        for place, part in enumerate(parts):
            if part:
                yield part, place % 2 == 1


def _any_of(tokens: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted(set(filter(None, tokens)), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
