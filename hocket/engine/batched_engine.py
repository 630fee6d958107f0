"""The common part of engines that sample in batches: the queue of requests, and the limit of a response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from hocket.core.errors import ConfigurationError, HocketError
from hocket.engine.barrier import Barrier, LiveEpisode
from hocket.engine.requests import ContextFull, Request, Sample


class Pending(NamedTuple):
    """A waiting request, its engine, and the promise of its answer."""

    engine: BatchedEngine
    request: Request
    promise: Promise


@dataclass(frozen=True, eq=False)
class Promise:
    """The promise of an answer. A task awaits `future`, as call number `place` of the workflow `live`, if any."""

    future: asyncio.Future[Sample]
    live: LiveEpisode | None
    place: int

    @staticmethod
    def of(live: LiveEpisode | None) -> Promise:
        """For a new call."""
        place = 0 if live is None else live.begin()
        return Promise(asyncio.get_running_loop().create_future(), live, place)

    @property
    def waits(self) -> bool:
        """Whether a task still waits."""
        return not self.future.done()

    def answer(self, sample: Sample) -> bool:
        """Sets the answer; whether a task can continue."""
        return self._settle(partial(self.future.set_result, sample))

    def fail(self, error: BaseException) -> None:
        """Sets an error."""
        self._settle(partial(self.future.set_exception, error))

    def leave(self) -> None:
        """Marks that the task no longer waits."""
        if self.live is not None:
            self.live.leave(self.place)

    def _settle(self, give: Callable[[], None]) -> bool:
        if self.live is not None:
            return self.live.done(self.place, partial(self._unless_done, give))
        self._unless_done(give)
        return True

    def _unless_done(self, give: Callable[[], None]) -> None:
        if self.waits:
            give()


class BatchedEngine:
    """Collects requests until every live workflow waits, then samples them together.

    A subclass implements `sample`, which makes this a `hocket.engine.requests.Engine`. A subclass whose answers do not
    depend on the batch may also take requests at any time, by `_go_on`.

    Args:
        max_rows: continuations decoded together.
        barrier: shared by the engines of one run, so that a workflow that waits for one of them counts for all.
        beside: an engine with which this one shares barrier and batches; its `_answer` samples for both.
    """

    masks = False
    """Whether the engine can sample under `decoding.mask`."""

    def __init__(
        self, *, max_rows: int = 256, barrier: Barrier | None = None, beside: BatchedEngine | None = None
    ) -> None:
        if max_rows < 1:
            raise ConfigurationError(f"engine.max_rows = {max_rows}: must be at least 1")
        self.max_rows = max_rows
        self._pending: dict[Promise, Pending] = {}
        self.barrier: Barrier = barrier if barrier is not None else Barrier()
        if beside is None:
            self.barrier.serve(self._run_pending, self._go_on)
        else:
            self.barrier, self._pending = beside.barrier, beside._pending

    @property
    def context_length(self) -> int | None:
        """The largest number of tokens of a context with its response; None if there is no limit."""
        raise NotImplementedError

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples all requests now; results in the order given."""
        raise NotImplementedError

    @property
    def live(self) -> int:
        """The number of workflows inside `episode()`."""
        return self.barrier.live

    def episode(self) -> AbstractAsyncContextManager[None]:
        """Marks a live workflow: batches run only when all live workflows wait."""
        return self.barrier.episode()

    async def submit(self, request: Request) -> Sample:
        """Waits for one continuation; see `hocket.engine.requests.Engine`."""
        self._limit(request)
        promise = Promise.of(self.barrier.current())
        self._pending[promise] = Pending(self, request, promise)
        try:
            async with self.barrier.waiting():
                return await promise.future
        except asyncio.CancelledError:
            self._pending.pop(promise, None)
            promise.leave()
            self._tidy()
            raise

    def _answer(self, requests: Sequence[tuple[BatchedEngine, Request]]) -> list[Sample]:
        """Samples requests of this engine and of those that share its batches; results in the order given."""
        return self.sample([request for _, request in requests])

    def _tidy(self) -> None:
        """Drops requests in progress for which no task waits."""

    def _go_on(self) -> bool:
        """Adds pending requests to those in progress and works on these for a moment; whether there were any.

        Always false in an engine whose answers depend on the batch.
        """
        return False

    def _run_pending(self) -> bool:
        """Runs the pending requests as one batch; whether there were any."""
        pending = [entry for entry in self._pending.values() if entry.promise.waits]
        self._pending.clear()
        if not pending:
            return False
        try:
            samples = self._answer([(entry.engine, entry.request) for entry in pending])
        except Exception as error:
            for entry in pending:
                entry.promise.fail(error)
            return True
        for entry, sample in zip(pending, samples, strict=True):
            entry.promise.answer(sample)
        return True

    def _limit(self, request: Request) -> int:
        """The largest number of response tokens of a request.

        Raises:
            HocketError: when its context is empty or leaves no room, or its prefix exceeds the limit.
        """
        if request.decoding.mask is not None and not self.masks:
            raise ConfigurationError(
                "decoding.mask reads the policy or a copy of it at every token; sample with engine.kind = local"
            )
        length, most = len(request.tokens), request.decoding.max_tokens
        if length == 0:
            raise HocketError("a request has an empty context; give the scenario a prompt")
        if most < 1:
            raise ConfigurationError(f"max_tokens = {most}: must be at least 1")
        context = self.context_length
        limit = most if context is None else min(most, context - length)
        if limit < max(1, len(request.prefix)):
            forced = f" and a forced prefix of {len(request.prefix)}" if request.prefix else ""
            raise ContextFull(
                f"a prompt of {length} tokens{forced} leaves no room for a response: the model's context is {context} "
                f"tokens and max_tokens is {most}; shorten the prompt or prefix, or change max_tokens"
            )
        return limit
