"""Requests to an engine, and samples as their results."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.types import Decoding, Message

if TYPE_CHECKING:
    from hocket.engine.barrier import Barrier
    from hocket.policies.causal_lm import CausalLM


class ContextFull(HocketError):
    """A context leaves no room for a response."""


@dataclass(frozen=True)
class ResponseStart:
    """The beginning of a response that was written earlier, under other weights or in another engine.

    Attributes:
        tokens, logp, version: of each token `[L]`, imposed ones included: its id, its log-prob when it was written, and
            the version of the weights that wrote it.
        extras: further columns of these tokens for the turn.
    """

    tokens: NDArray[np.int64]
    logp: NDArray[np.float32]
    version: NDArray[np.int64]
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """One continuation to sample.

    Attributes:
        tokens: the complete context, token ids.
        decoding: temperature, truncation, limits and stops.
        key: names the stream of uniforms; token t is drawn with counter t. Also the order of admission.
        prefix: response tokens that are imposed before sampling begins; recorded as forced.
        messages: the same context as chat messages, for servers that read only text.
        drawn: for a response written in parts, the number of tokens of this stream at the end of the context; token t
            is drawn with counter `drawn + t`. Only the local engine supports it.
        begun: the beginning of the response, if there is one. The engine continues it as its own, the sample contains
            it, and limits count it. The local engine supports it over pages, and engines of servers and of vLLM do.
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
            None if a server does not return it.
        finish: `stop` (end of turn or a stop string), `length` (the limit, or the context is full).
        version: the version of the weights that wrote it, or its last token if there were several.
        forced: `[L]`, True for the imposed prefix.
        extras: further columns for the turn, such as the masks of sampling.
        text: the answer of a server that returns only text, of which `tokens` are an encoding; else None.
        versions: the version of the weights that wrote each token `[L]`, if there were several; else None.
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
        """The version of the weights of each token `[L]`."""
        return np.full(len(self.tokens), self.version, np.int64) if self.versions is None else self.versions


class Engine(Protocol):
    """Samples continuations from one policy."""

    def episode(self) -> AbstractAsyncContextManager[None]:
        """Marks a live workflow: batches run only when every live workflow waits.

        Calls inside, also by tasks that it starts, belong to the workflow. It waits as soon as one of them waits, and
        concurrent calls arrive together. Engines of one workflow must share a barrier: entering the second of them has
        no effect.
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


@runtime_checkable
class PolicyEngine(Engine, Protocol):
    """An engine that samples a policy of the run, always with its current weights."""

    policy: CausalLM
    barrier: Barrier


@runtime_checkable
class Interruptible(PolicyEngine, Protocol):
    """An engine whose unfinished responses can go on under new weights.

    Attributes:
        interrupted: whether they do; their samples then record the version that wrote each token.
        max_rows, context_length: see `BatchedEngine`.
    """

    interrupted: bool
    max_rows: int

    @property
    def context_length(self) -> int | None: ...
