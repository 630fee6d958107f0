"""Conversations with a model that reads messages and returns text, and whose token ids are unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hocket.agents.workflows.chat import Tokens, Tools
from hocket.core.errors import ConfigurationError
from hocket.core.media import words_of
from hocket.types import Message


class TextChat:
    """Replaces `Chat`. Token ids only record the text, in the ids of any tokenizer.

    Args:
        tokenizer: a `PreTrainedTokenizerBase`; its chat template is not used.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def opening(self, messages: Sequence[Message], tools: Tools | None = None) -> Tokens:
        """Ids of a whole history, a line per message.

        Raises:
            ConfigurationError: for tools, which need a chat template.
        """
        if tools:
            raise ConfigurationError(
                "a role that is asked by text cannot be shown tools; give it a tokenizer with a chat template "
                "(roles.NAME.tokenizer) or no tools"
            )
        return self.encode("".join(f"{message['role']}: {words_of(message['content'])}\n" for message in messages))

    def grown(
        self,
        history: Sequence[Message],
        response: Sequence[int],
        new: Sequence[Message],
        tools: Tools | None = None,
        answer: Message | None = None,
    ) -> Tokens | None:
        """Ids of the `new` messages: nothing rewrites the past."""
        return self.opening(new, tools)

    def demonstration(
        self, answer: str | Message, history: Sequence[Message] = (), tools: Tools | None = None
    ) -> Tokens:
        """Raises an error: a model behind an endpoint is not trained."""
        raise ConfigurationError("demonstrations belong to the workflow's first role, which is an endpoint; train it")

    def reply_text(self, response: Sequence[int], observation: Sequence[int] = ()) -> str:
        """A response as text."""
        return self.render(response)

    def render(self, tokens: Sequence[int]) -> str:
        """All tokens as text."""
        ids = [int(token) for token in tokens]
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def encode(self, text: str, after: Sequence[int] = ()) -> Tokens:
        """Ids of a text, without any special token around it."""
        return tuple(int(token) for token in self.tokenizer(text, add_special_tokens=False)["input_ids"])
