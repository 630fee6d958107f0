"""The interface of chat formats, which convert messages to tokens and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hocket.agents.workflows.chat import Tokens, Tools
from hocket.types import Message


class ChatFormat(Protocol):
    """`Chat` for models whose tokens are known, `TextChat` for others, `hocket.lab.talk.WordChat` for tables."""

    def opening(self, messages: Sequence[Message], tools: Tools | None = None) -> Tokens:
        """Ids of a complete history that ends before the agent's reply."""
        ...

    def grown(
        self,
        history: Sequence[Message],
        response: Sequence[int],
        new: Sequence[Message],
        tools: Tools | None = None,
        answer: Message | None = None,
    ) -> Tokens | None:
        """Ids of what follows a response, `answer` as a message, when `new` messages arrive; None where the past would
        read differently.
        """
        ...

    def demonstration(
        self, answer: str | Message, history: Sequence[Message] = ..., tools: Tools | None = None
    ) -> Tokens:
        """Ids of the response `answer` after `history`."""
        ...

    def reply_text(self, response: Sequence[int], observation: Sequence[int] = ()) -> str:
        """The text of a response to an observation."""
        ...

    def render(self, tokens: Sequence[int]) -> str:
        """All tokens as text."""
        ...

    def encode(self, text: str, after: Sequence[int] = ()) -> Tokens:
        """Ids of a piece of a response, `after` the response's ids before it."""
        ...
