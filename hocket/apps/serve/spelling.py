"""From sampled tokens to what a client reads: text as it becomes certain, stop strings, calls of tools, log-probs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from hocket.agents.tools.protocol import first_call, read_calls
from hocket.agents.workflows.chat_format import ChatFormat
from hocket.apps.serve.wire import CalledFunction, TokenLogprob, ToolCall, TopLogprob

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_OPEN = "<tool_call>"


@dataclass(frozen=True)
class Delta:
    """What is new in one answer.

    Attributes:
        index: of the answer. text: what was added. entries: of the tokens that make it, where log-probs were asked for.
        tokens: sampled since the last one. calls: of tools, with the last delta. finish: why the answer ended, with it.
    """

    index: int
    text: str = ""
    entries: tuple[TokenLogprob, ...] = ()
    tokens: int = 0
    calls: tuple[ToolCall, ...] = ()
    finish: Literal["stop", "length", "tool_calls"] | None = None


class Spelling:
    """One answer while it grows.

    The stop string that is whole first ends it, and is no part of its text. Text that may still become a stop string, a
    call of a tool or another character is held back until that is known.

    Args:
        chat: whose tokens they are.
        index: of the answer.
        stops: strings that end it.
        tools: whether calls of tools are read from it; `name` makes their ids.
        prompt: ids before it; calls in a thought that they open are none.
        logprobs: whether tokens are told with their log-probs.
    """

    def __init__(
        self,
        chat: ChatFormat,
        index: int,
        *,
        stops: Sequence[str] = (),
        tools: bool = False,
        prompt: Sequence[int] = (),
        name: str = "",
        logprobs: bool = False,
    ) -> None:
        self._chat = chat
        self._index = index
        self._stops = tuple(stops)
        self._tools = tools
        self._begun = chat.reply_text((), prompt) if tools else ""
        self._name = name
        self._logprobs = logprobs
        self._tokens: list[int] = []
        self._logp: list[float] = []
        self._likely: list[Sequence[tuple[int, float]]] = []
        self._text = ""
        self._told = self._told_tokens = self._spelt = self._counted = 0
        self.stopped = False

    @property
    def tokens(self) -> int:
        """Tokens taken so far."""
        return len(self._tokens)

    def take(
        self,
        tokens: Sequence[int],
        logp: Sequence[float] | None,
        likely: Sequence[Sequence[tuple[int, float]]] | None = None,
    ) -> None:
        """Takes further tokens, their log-probs where known, and the likeliest tokens of each place where asked for."""
        self._tokens += [int(token) for token in tokens]
        if logp is None:
            self._logprobs = False
        else:
            self._logp += [float(value) for value in logp]
        self._likely += [()] * len(tokens) if likely is None else list(likely)
        self._text = self._chat.reply_text(self._tokens)
        stops = [(place + len(stop), place) for stop in self._stops if (place := self._text.find(stop)) >= 0]
        if stops:
            # Whole first, not begun first: a longer one could else take back what a part ended with.
            self._text = self._text[: min(stops)[1]]
            self.stopped = True

    def delta(self) -> Delta:
        """What has become certain since the last one."""
        return self._grown(self._certain())

    def last(self, finish: Literal["stop", "length"]) -> Delta:
        """The rest, at the end of the answer."""
        finish = "stop" if self.stopped else finish
        calls: tuple[ToolCall, ...] = ()
        visible = len(self._text)
        if self._tools:
            calls = calls_in(self._begun + self._text, self._name)
        if calls:
            visible = max(self._told, len(self._text[: self._first()].rstrip()))
        grown = self._grown(visible, ended=True)
        why = "tool_calls" if calls and finish != "length" else finish  # Cut off, although calls before were whole.
        return Delta(self._index, grown.text, grown.entries, grown.tokens, calls, why)

    def _grown(self, end: int, *, ended: bool = False) -> Delta:
        text = self._text[self._told : end]
        entries = self._entries(len(self._text) if ended else end) if self._logprobs else ()
        counted, self._counted = len(self._tokens) - self._counted, len(self._tokens)
        self._told = max(end, self._told)
        return Delta(self._index, text, entries, counted)

    def _certain(self) -> int:
        """How much of the text no further token can change or take back."""
        if self.stopped:
            return len(self._text)
        end = len(self._text)
        while end > self._told and self._text[end - 1] == _UNFINISHED:
            end -= 1
        if self._tools:
            opened = self._first()
            # Space before a call is no part of the text either.
            end = min(end, end if opened is None else opened)
            end = len(self._text[:end].rstrip())
        held = (*self._stops, _OPEN) if self._tools else self._stops
        for stop in held:
            reach = next((n for n in range(min(len(stop) - 1, end), 0, -1) if self._text[:end].endswith(stop[:n])), 0)
            end = min(end, len(self._text[:end]) - reach)
        return max(end, self._told)

    def _first(self) -> int | None:
        """Where in the text the first call begins."""
        place = first_call(self._begun + self._text)
        return None if place is None else place - len(self._begun)

    def _entries(self, end: int) -> tuple[TokenLogprob, ...]:
        """Of the tokens that make the text up to `end` and were not told yet."""
        entries: list[TokenLogprob] = []
        while self._told_tokens < len(self._tokens):
            after = len(self._chat.reply_text(self._tokens[: self._told_tokens + 1]))
            # The end-of-turn token writes nothing, and what lies behind a stop string is not told.
            if self._spelt >= end or after > end:
                break
            entries.append(self._entry(self._told_tokens))
            self._told_tokens, self._spelt = self._told_tokens + 1, after
        return tuple(entries)

    def _entry(self, place: int) -> TokenLogprob:
        text, logp = self._chat.render([self._tokens[place]]), self._logp[place]
        top = [
            TopLogprob(word, value, _bytes(word))
            for word, value in ((self._chat.render([token]), value) for token, value in self._likely[place])
        ]
        return TokenLogprob(text, logp, _bytes(text), top)


def _bytes(text: str) -> list[int] | None:
    """The bytes of a token's text; None where it holds only part of a character."""
    return None if _UNFINISHED in text else list(text.encode("utf-8", "surrogatepass"))


def calls_in(text: str, name: str) -> tuple[ToolCall, ...]:
    """The calls of tools in a reply, numbered under `name`; none at all where one of them cannot be read."""
    calls = read_calls(text)
    if any(call.problem is not None for call in calls):
        return ()
    return tuple(
        ToolCall(f"call_{name}_{number}", CalledFunction(call.name, msgspec.json.encode(call.arguments).decode()))
        for number, call in enumerate(calls)
    )
