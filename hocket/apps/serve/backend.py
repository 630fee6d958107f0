"""What stands behind the endpoint: who may ask, which models there are, and what answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hocket.apps.serve.spelling import Delta
from hocket.apps.serve.wire import ChatRequest, CompletionRequest, EmbeddingRequest, PromptToken, RewardReport


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes:
        episode: named in the address, as in `/e/EPISODE/v1`. key: sent along, None without one.
        retry: names a request that may be sent again and is to be answered once; None where none was named.
        again: the client says that it repeats a request.
        local: the request is addressed to this machine by name. A page of the web that a browser was tricked into
            taking for local is not.
    """

    episode: str | None = None
    key: str | None = None
    retry: str | None = None
    again: bool = False
    local: bool = False


@dataclass(frozen=True)
class Job:
    """A request that is being answered.

    Attributes:
        id: of the completion. model, weights: what answers. prompt_tokens: tokens of the context.
        deltas: of all answers as they grow; closing it gives the work up. prompts: the texts that are continued.
        scores: of each prompt, where they are asked for: by token id what was likely at each place but the first.
    """

    id: str
    model: str
    weights: str
    prompt_tokens: int
    deltas: AsyncIterator[Delta]
    prompts: Sequence[str] = ()
    scores: Sequence[list[dict[str, PromptToken] | None]] = ()


@dataclass(frozen=True)
class Vectors:
    """The vectors of texts, of length 1, that the model called `model` gave; `tokens` were read for them."""

    model: str
    rows: list[list[float]]
    tokens: int


class Backend(Protocol):
    """Answers requests that were read and found well-formed. Every method may raise `Refused`."""

    def admit(self, caller: Caller) -> None:
        """Returns if this caller may ask."""
        ...

    def models(self) -> list[str]:
        """Names under which models answer."""
        ...

    def weights(self) -> str:
        """A name for the weights that answer now."""
        ...

    async def open(self, caller: Caller, body: bytes, request: ChatRequest) -> Job:
        """Begins to answer. `body` is the request as it came."""
        ...

    def report(self, caller: Caller, report: RewardReport) -> None:
        """Takes note of how an episode came out."""
        ...


@runtime_checkable
class TextBackend(Backend, Protocol):
    """A `Backend` that continues and embeds texts as well."""

    async def complete(self, request: CompletionRequest) -> Job:
        """Begins to continue prompts."""
        ...

    async def embed(self, request: EmbeddingRequest) -> Vectors:
        """The vectors of texts."""
        ...
