"""Pictures and sounds in a rendered conversation: a placeholder with a mark behind it, and what stands for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hocket.agents.workflows.control_tokens import SealedTokenizer
from hocket.core.errors import ConfigurationError
from hocket.core.media import FIRST, KINDS, ReadsPictures, media_in
from hocket.types import Message

_OPEN, _CLOSE = "\ufdd6", "\ufdd7"
_MARK = re.compile(f"{_OPEN}([0-9a-f]+){_CLOSE}")


class PicturedText:
    """Rendered texts in which pictures or sounds stand, for the model of a tokenizer.

    Args:
        name: of the tokenizer, in errors. reader: what reads its media; None where the model reads words alone.
        words: encodes the text.
    """

    def __init__(self, name: str, reader: ReadsPictures | None, words: SealedTokenizer) -> None:
        self._name, self._reader = name, reader
        self._seal = "" if reader is None else words.sealed(reader.token)

    def check(self, messages: Sequence[Message]) -> None:
        """Refuses pictures and sounds where the model reads none.

        Raises:
            ConfigurationError: naming the tokenizer, and what to do.
        """
        known = None if self._reader is None else self._reader.kind
        for kind in [kind for kind, _ in media_in(messages) if kind != known][:1]:
            reads = "words alone" if known is None else f"{KINDS[known]}s"
            raise ConfigurationError(
                f"a message holds a {KINDS[kind]}, and the model of {self._name} reads {reads}; choose a model that "
                f"reads {KINDS[kind]}s, such as --model {'nano-vlm' if kind == 'image' else 'nano-audio'}"
            )

    def marked(self, text: str, messages: Sequence[Message]) -> str:
        """The text of messages, with the digests of their media behind the placeholders.

        Raises:
            ConfigurationError: when the template does not show each once.
        """
        if self._reader is None:
            return text
        digests = [digest for _, digest in media_in(messages)]
        pieces = text.split(self._seal)
        if len(pieces) - 1 != len(digests):
            raise ConfigurationError(
                f"the chat template of {self._name} shows {len(pieces) - 1} of {len(digests)} "
                f"{KINDS[self._reader.kind]}s; use the model's own template, which writes {self._reader.token} for each"
            )
        marks = [f"{self._seal}{_OPEN}{digest}{_CLOSE}" for digest in digests]
        return "".join(piece + mark for piece, mark in zip(pieces, [*marks, ""], strict=True))

    def encoded(self, text: str, encode: Callable[[str], tuple[int, ...]]) -> tuple[int, ...]:
        """The ids of a marked text, with what the processor makes of each picture in the place of its placeholder."""
        digests = iter(_MARK.findall(text))
        ids = encode(unmarked(text))
        if self._reader is None or self._reader.token_id not in ids:
            return ids
        expanded: list[int] = []
        for token in ids:
            expanded += self._reader.ids(next(digests)) if token == self._reader.token_id else [token]
        return tuple(expanded)

    def readable(self, tokens: Sequence[int]) -> list[int]:
        """Tokens of the vocabulary alone: those of a picture that stand in a row are one placeholder."""
        instead = [] if self._reader is None else [self._reader.token_id]
        words: list[int] = []
        pictured = False
        for token in map(int, tokens):
            words += instead * (not pictured) if token >= FIRST else [token]
            pictured = token >= FIRST
        return words


def in_parts(message: Message) -> Message:
    """A message whose text is a part."""
    content = message.get("content")
    return {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message


def unmarked(text: str) -> str:
    """A text without the marks of pictures."""
    return _MARK.sub("", text)
