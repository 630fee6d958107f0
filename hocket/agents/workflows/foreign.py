"""Conversations of a client that sends complete histories, in which the sampled turns are recognised."""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hocket.agents.workflows.chat import Chat, Tokens, Tools
from hocket.agents.workflows.chat_format import ChatFormat
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Agent, _Call
from hocket.core.columns import CONVERSATION
from hocket.engine.requests import Request
from hocket.types import Message


@dataclass(frozen=True)
class History:
    """A conversation up to the policy's reply, and its text.

    Attributes:
        observation: the tokens that are new since `known`, the answer that it continues; None opens a conversation.
    """

    messages: tuple[Message, ...]
    shown: str
    observation: Tokens
    known: ForeignAnswer | None

    @property
    def context(self) -> Tokens:
        """All tokens that the policy reads."""
        return self.observation if self.known is None else self.known.tokens + self.observation


@dataclass(frozen=True)
class ForeignAnswer:
    """An earlier answer: its history, and both together as text and tokens."""

    reply: Reply
    messages: tuple[Message, ...]
    text: str
    tokens: Tokens
    conversation: int


class Correspondent(Agent):
    """An agent for a client that keeps its own conversations, as clients of chat completions do.

    Every call brings a complete history. It is matched with the longest sampled token sequence (prompt and response)
    that it continues. The call is then a child turn: its context has exactly those tokens, and its observation is the
    rest. Everything else in the history, also an edited or foreign answer, is observation and no decision. A history
    that continues no sequence opens a new conversation.

    Draws depend on the context and on the number of earlier calls with it, not on the order of arrival.
    """

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent.role, agent._actor, agent._episode)
        self._free = [agent._conversation, self._conversation]
        self._known: list[ForeignAnswer] = []
        self._asked: dict[str, set[int]] = {}

    @property
    def chat(self) -> ChatFormat:
        """The format that converts messages to tokens."""
        return self._actor.chat

    def read(self, messages: Sequence[Message], tools: Tools | None = None) -> History:
        """Finds the turns sampled here in a history.

        Raises:
            ConfigurationError: when the chat template refuses the messages.
        """
        conversation = tuple(messages)
        shown = _shown(self.chat, conversation, tools)
        for known in sorted(self._known, key=lambda answer: len(answer.tokens), reverse=True):
            if shown.startswith(known.text):
                return History(conversation, shown, _encoded(self.chat, shown[len(known.text) :]), known)
            grown = self._grown(conversation, known, tools)
            if grown is not None:
                return History(conversation, shown, grown, known)
        return History(conversation, shown, self.chat.opening(conversation, tools), None)

    def write(
        self, history: History, *, longest: int | None = None, stops: Sequence[str] = ()
    ) -> Coroutine[Any, Any, Reply]:
        """Samples the policy's reply to a history; await it.

        The episode's settings hold; `longest` may shorten the reply, and `stops` end it.

        Raises:
            LimitReached: when the episode has no turn or token left.
        """
        decoding = replace(self._episode.assignment.decoding, **self._actor.decoding)
        most = decoding.max_tokens if longest is None else min(longest, decoding.max_tokens)
        place, left = self._episode.begin(self.role, most)
        decoding = replace(decoding, stop=(*decoding.stop, *stops), max_tokens=left)
        digest, number = self._numbered(history.context)
        key = self._episode.key.derive(self.role, digest, number)
        request = Request(history.context, decoding, key, messages=history.messages)
        parent = None if history.known is None else history.known.reply.turn
        call = _Call(history.messages, history.observation, parent, place, request, None, number)
        if history.known is not None:
            return self._written(call, history, digest, history.known.conversation)
        conversation = self._free.pop(0) if self._free else self._episode.conversation(self.role)
        return self._written(call, history, digest, conversation)

    async def _written(self, call: _Call, history: History, digest: str, conversation: int) -> Reply:
        try:
            reply = await self._answered(call)
        except BaseException:
            # No client saw this draw, so the next call with this context repeats it.
            self._asked[digest].discard(call.number)
            raise
        CONVERSATION.write(reply.turn, conversation)
        response = reply.tokens.tolist()
        text, tokens = history.shown + _spelt(self.chat, response), history.context + tuple(response)
        self._known.append(ForeignAnswer(reply, history.messages, text, tokens, conversation))
        return reply

    def _grown(self, messages: tuple[Message, ...], known: ForeignAnswer, tools: Tools | None) -> Tokens | None:
        """The text after an answer that the template shows with other white space, or another end, than its own."""
        past, turn = len(known.messages), known.reply.turn
        if len(messages) < past + 2 or messages[:past] != known.messages:
            return None
        # Clients do not see that the prompt opened a thought.
        message, shown = messages[past], self.chat.reply_text(turn.action.tolist())
        if not any(message == {"role": "assistant", "content": text} for text in (turn.text, shown)):
            return None
        return self.chat.grown(known.messages, turn.action.tolist(), messages[past + 1 :], tools, message)

    def _numbered(self, context: Tokens) -> tuple[str, int]:
        """The digest of a context, and the lowest free number of a call with it."""
        digest = hashlib.blake2b(np.asarray(context, np.int64).tobytes(), digest_size=16).hexdigest()
        taken = self._asked.setdefault(digest, set())
        number = next(number for number in range(len(taken) + 1) if number not in taken)
        taken.add(number)
        return digest, number


def _shown(chat: ChatFormat, messages: Sequence[Message], tools: Tools | None) -> str:
    """A whole history as the policy's side writes it."""
    return chat.sealed(messages, tools) if isinstance(chat, Chat) else chat.render(chat.opening(messages, tools))


def _spelt(chat: ChatFormat, tokens: Sequence[int]) -> str:
    """An answer as `_shown` would show it."""
    return chat.sealed_text(tokens) if isinstance(chat, Chat) else chat.render(tokens)


def _encoded(chat: ChatFormat, text: str) -> Tokens:
    """Ids of the rest of the text from `_shown`."""
    return chat.encode_sealed(text) if isinstance(chat, Chat) else chat.encode(text)
