"""What of a conversation can change how a chat template shows it: roles, places, tags, and which messages are equal.

Templates rewrite the past by rules about these: the thinking of earlier answers goes, the system prompt moves, an end
is trimmed. Plain words are copied. So a conversation may be tried out once with other words in their place, and what
was seen holds for every conversation of this shape, however long its messages are.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache

from jinja2 import Environment

from hocket.core.markup import THOUGHT_TAGS
from hocket.types import Message

MOST = 32
"""A text of more pieces is its own shape."""

KEPT = 65536
"""The number of beginnings of conversations that are distinguished at a time."""

_WORD = "\0"


class ConversationShapes:
    """Shapes of conversations under some chat templates, given as their source."""

    def __init__(self, templates: Iterable[str]) -> None:
        tags = {tag for source in templates for tag in _literals(source) if _is_tag(tag.strip())} | THOUGHT_TAGS
        self._tags = re.compile("|".join(map(re.escape, sorted(tags, key=len, reverse=True))))
        self._text = lru_cache(4096)(self._shape)
        self._numbers: dict[Hashable, int] = {}
        self._round = 0

    def of(self, messages: Sequence[Message]) -> Hashable:
        """A name for the shape of a conversation."""
        if len(self._numbers) > KEPT:
            self._numbers.clear()
            self._round += 1
        # Conversations that begin alike share what is kept of that: a number for each beginning.
        firsts: dict[Hashable, int] = {}
        numbers, number = self._numbers, -1
        for place, message in enumerate(messages):
            step = number, self._of(message), firsts.setdefault(_name(message), place)
            number = numbers.setdefault(step, len(numbers))
        return self._round, number

    def plain(self, message: Message) -> bool:
        """Whether a message is a role and plain words."""
        return len(message) == 2 and _worded(message) and self._text(message["content"]) == _WORD

    def trial(self, messages: Sequence[Message]) -> list[Message]:
        """A conversation of the same shape with other words."""
        firsts: dict[Hashable, int] = {}
        problems = []
        for place, message in enumerate(messages):
            first = firsts.setdefault(_name(message), place)
            if _worded(message):
                message = {**message, "content": self._text(message["content"]).replace(_WORD, f"x{first}")}
            problems.append(message)
        return problems

    def _of(self, message: Message) -> Hashable:
        if not _worded(message):
            return repr(message)
        shape = self._text(message["content"])
        return (message["role"], shape) if len(message) == 2 else repr({**message, "content": shape})

    def _shape(self, content: str) -> str:
        bare = content.strip()
        pieces, place = list[str](), 0
        for tag in self._tags.finditer(bare):
            pieces += [_word(bare[place : tag.start()]), tag.group()]
            place = tag.end()
            if len(pieces) > MOST:
                return content
        pieces.append(_word(bare[place:]))
        # Templates that trim, and those that ask how a text begins or ends, see the white space around it.
        start = len(content) - len(content.lstrip())
        return content[:start] + "".join(pieces) + content[start + len(bare) :]


def _name(message: Message) -> Hashable:
    """Equal for equal messages."""
    return (message["role"], message["content"]) if len(message) == 2 and _worded(message) else repr(message)


def _worded(message: Message) -> bool:
    return isinstance(message.get("content"), str)


def _is_tag(text: str) -> bool:
    return len(text) > 1 and re.search(r"[^\w\s]", text) is not None


def _word(text: str) -> str:
    return _WORD if text.strip() else text[:1]


def _literals(source: str) -> list[str]:
    """The texts that a template's expressions mention."""
    return [str(token.value) for token in Environment().lexer.tokenize(source) if token.type == "string"]
