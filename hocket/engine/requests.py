"""What is asked of an engine and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.types import Decoding, Message


class ContextFull(HocketError):
    """A context leaves no room for a response."""


@dataclass(frozen=True)
class ResponseStart:
    """The beginning of a response that was written before, under other weights or elsewhere.

    Attributes:
        tokens, logp, version: of each token `[L]`, what is imposed included: its id, its log-prob when it was written,
            and the version of the weights that wrote it.
        extras: what the turn keeps of these tokens.
    """

    tokens: NDArray[np.int64]
    logp: NDArray[np.float32]
    version: NDArray[np.int64]
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """One continuation to sample.

    Attributes:
        tokens: the whole context, token ids.
        decoding: temperature, truncation, limits and stops.
        key: names the stream of uniforms; token t is drawn with counter t. Also the order of admission.
        prefix: response tokens that are imposed before sampling begins; recorded as forced.
        messages: the same context as chat messages, for servers that know only text.
        drawn: how many tokens of this stream the context ends with, where a response is written in parts; token t is
            drawn with counter `drawn + t`. Only the local engine knows it.
        begun: the beginning of the response where there is one: it goes on as if it had been written here, and the
            answer holds all of it. Limits count it. Only the local engine's pages know it.
    """

    tokens: tuple[int, ...]
    decoding: Decoding
    key: Key
    prefix: tuple[int, ...] = ()
    messages: tuple[Message, ...] = field(default=(), compare=False)
    drawn: int = 0
    begun: ResponseStart | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Sample:
    """A finished continuation, without its context.

    Attributes:
        tokens: response ids `[L]`, the end-of-turn token included when it was sampled.
        logp: log-prob of each token `[L]` under the distribution it was drawn from (temperature 1 when greedy), nats;
            None where a server does not tell.
        finish: `stop` (end of turn or a stop string), `length` (the limit, or the context is full).
        version: the weights version it was sampled with, of its last token where there were several.
        forced: `[L]`, True for the imposed prefix.
        extras: what the turn keeps besides, such as the masks it was sampled under.
        text: what was said where a server gave only text, of which `tokens` are then an encoding; else None.
        versions: of the weights that wrote each token `[L]`, where they are several; else None.
    """

    tokens: NDArray[np.int64]
    logp: NDArray[np.float32] | None
    finish: Literal["stop", "length"]
    version: int
    forced: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    text: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    versions: NDArray[np.int64] | None = None

    @property
    def written_by(self) -> NDArray[np.int64]:
        """The version of the weights that wrote each token `[L]`."""
        return np.full(len(self.tokens), self.version, np.int64) if self.versions is None else self.versions


class Engine(Protocol):
    """Samples continuations from one policy."""

    def episode(self) -> AbstractAsyncContextManager[None]:
        """Marks a live workflow: batches run only when every live workflow waits.

        Calls made inside, also by tasks started inside, are the workflow's own; it waits as soon as one of them does,
        and calls made together arrive together. Engines that one workflow uses must share who is live: entering the
        second of them changes nothing.
        """
        ...

    async def submit(self, request: Request) -> Sample:
        """Waits for one continuation. Requests pending together are batched, in key order.

        Raises:
            ContextFull: when the context leaves no room for a response.
        """
        ...

    def sample(self, requests: list[Request]) -> list[Sample]:
        """Samples all requests now; results in the order given."""
        ...
