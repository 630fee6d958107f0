"""Sampling from a causal language model in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import torch

from hocket.engine.cached import CachedSession
from hocket.engine.decoder import DecoderSession
from hocket.engine.decoding import decode
from hocket.engine.lobby import Lobby
from hocket.engine.requests import ContextFull, Request, Sample
from hocket.engine.session import Session
from hocket.engine.stops import StopStrings
from hocket.errors import ConfigurationError, HocketError
from hocket.policies.family import supports

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM

_Numbered = tuple[int, Request, int]
"""A request's place in the caller's list, the request, and the most response tokens it may have."""


class LocalEngine:
    """Batched sampling from one policy, always with its current weights; implements `hocket.engine.requests.Engine`.

    A request's tokens depend on its key, context and weights, not on what is sampled beside it, up to float rounding.
    Log-probs are those of the distribution drawn from: at the request's temperature, and of the cut vocabulary when
    `decoding.truncates`; greedy and forced tokens have those of the uncut distribution (greedy at temperature 1).

    Args:
        policy: whom to sample from.
        max_rows: continuations decoded together; more wait, in key order.
        lobby: shared by the engines of one run, so that a workflow waiting for one of them counts for all.
    """

    def __init__(self, policy: CausalLM, *, max_rows: int = 256, lobby: Lobby | None = None) -> None:
        if max_rows < 1:
            raise ConfigurationError(f"engine.max_rows = {max_rows}: must be at least 1")
        self.policy = policy
        self.max_rows = max_rows
        self.lobby = lobby if lobby is not None else Lobby()
        self.lobby.serve(self._run_pending)
        self._stops = StopStrings(policy.tokenizer)
        self._pending: list[tuple[Request, asyncio.Future[Sample]]] = []

    @property
    def live(self) -> int:
        """Workflows inside `episode()` now."""
        return self.lobby.live

    def episode(self) -> AbstractAsyncContextManager[None]:
        """Marks a live workflow: batches run only when all live workflows wait."""
        return self.lobby.episode()

    async def submit(self, request: Request) -> Sample:
        """Waits for one continuation; see `hocket.engine.requests.Engine`."""
        self._limit(request)
        future: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        entry = (request, future)
        self._pending.append(entry)
        try:
            async with self.lobby.waiting():
                return await future
        finally:
            if entry in self._pending:
                self._pending.remove(entry)

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples all requests now; results in the order given."""
        numbered = [(place, request, self._limit(request)) for place, request in enumerate(requests)]
        numbered.sort(key=lambda item: item[1].key)
        found: dict[int, Sample] = {}
        with torch.inference_mode(), self.policy.applied():
            for wave in self._waves(numbered):
                found.update(self._run_wave(wave))
        return [found[place] for place in range(len(requests))]

    def _run_pending(self) -> bool:
        """Runs what is pending as one batch; says whether there was anything."""
        pending = [(request, future) for request, future in self._pending if not future.done()]
        self._pending.clear()
        if not pending:
            return False
        try:
            samples = self.sample([request for request, _ in pending])
        except Exception as error:
            for _, future in pending:
                future.set_exception(error)
            return True
        for (_, future), sample in zip(pending, samples, strict=True):
            future.set_result(sample)
        return True

    def _waves(self, numbered: list[_Numbered]) -> Iterator[list[_Numbered]]:
        """Requests decoded together: whole batches on the fast path, equal context lengths on the other."""
        fast: list[_Numbered] = []
        by_length: dict[int, list[_Numbered]] = {}
        for item in numbered:
            _, request, limit = item
            if supports(self.policy.model, len(request.tokens) + limit):
                fast.append(item)
            else:
                by_length.setdefault(len(request.tokens), []).append(item)
        for group in (fast, *by_length.values()):
            for start in range(0, len(group), self.max_rows):
                yield group[start : start + self.max_rows]

    def _run_wave(self, wave: list[_Numbered]) -> dict[int, Sample]:
        # Requests of one context stand side by side.
        wave = sorted(wave, key=lambda item: item[1].tokens)
        model, precision = self.policy.model, self.policy.precision
        longest = max(len(request.tokens) + limit for _, request, limit in wave)

        def open_session(contexts: Sequence[tuple[int, ...]]) -> Session:
            if supports(model, longest):
                return DecoderSession(model, contexts, precision)
            return CachedSession(model, contexts)

        requests, limits = [request for _, request, _ in wave], [limit for _, _, limit in wave]
        samples = decode(requests, limits, open_session, self._stops, self.policy)
        return {place: sample for (place, _, _), sample in zip(wave, samples, strict=True)}

    def _limit(self, request: Request) -> int:
        """The most response tokens a request may have.

        Raises:
            HocketError: when its context is empty or leaves no room, or its prefix exceeds the limit.
        """
        length, most = len(request.tokens), request.decoding.max_tokens
        if length == 0:
            raise HocketError("a request has an empty context; give the scenario a prompt")
        if most < 1:
            raise ConfigurationError(f"max_tokens = {most}: must be at least 1")
        context = self.policy.context_length
        limit = most if context is None else min(most, context - length)
        if limit < max(1, len(request.prefix)):
            forced = f" and a forced prefix of {len(request.prefix)}" if request.prefix else ""
            raise ContextFull(
                f"a prompt of {length} tokens{forced} leaves no room for a response: the model's context is {context} "
                f"tokens and max_tokens is {most}; shorten the prompt or prefix, or change max_tokens"
            )
        return limit
