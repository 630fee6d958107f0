"""Sampling from a causal language model in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch

from hocket import kernels
from hocket.engine.batched import BatchedEngine
from hocket.engine.cached import CachedSession
from hocket.engine.continuous import Continuous
from hocket.engine.decoder import DecoderSession
from hocket.engine.decoding import Decoding, Responses, decode
from hocket.engine.lobby import Lobby
from hocket.engine.masked import MaskedSession
from hocket.engine.paged import Counts, Kernels, PagedCache
from hocket.engine.requests import Request, Sample
from hocket.engine.session import Session
from hocket.engine.stops import StopStrings
from hocket.errors import HocketError
from hocket.policies.family import Adapters, adapters_of, head_size, supports
from hocket.policies.shared import batch_together

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM

MAX_BYTES = 4 * 2**30


class _Asked(NamedTuple):
    """A request's place in the caller's list, the request, the most response tokens it may have, and whom it is for."""

    place: int
    request: Request
    limit: int
    engine: LocalEngine


@dataclass(eq=False)
class _Company:
    """Engines that sample together, and what they have computed.

    Attributes:
        weights: fingerprints of the policies' weights that the cache belongs to.
    """

    engines: list[LocalEngine] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    cache: PagedCache | None = None
    weights: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def policies(self) -> list[CausalLM]:
        return [engine.policy for engine in self.engines]


class LocalEngine(BatchedEngine):
    """Batched sampling from one policy, always with its current weights; implements `hocket.engine.requests.Engine`.

    A request's tokens and log-probs depend on its key, context and weights, not on what is sampled beside it: to the
    last bit where the kernels run (see `hocket.kernels`), else up to float rounding. There what was computed of
    contexts and responses is kept until the weights change, so that a conversation's history is never computed again.

    Log-probs are those of the distribution drawn from: at the request's temperature, and of the cut vocabulary when
    `decoding.truncates`; greedy and forced tokens have those of the uncut distribution (greedy at temperature 1).

    Policies that share a base (see `hocket.policies.shared`) can have engines beside each other: what is pending for
    any of them runs as one batch, each row with its own policy's adapter.

    Attributes:
        counts: what was read, reused and drawn so far, by all engines beside each other.

    Args:
        policy: whom to sample from.
        max_rows: continuations decoded together; more wait, in key order.
        max_bytes: of keys and values; when they are used up, those longest unused go.
        lobby: shared by the engines of one run, so that a workflow waiting for one of them counts for all.
        beside: another policy's engine to sample together with; its `max_rows`, `max_bytes` and lobby hold for both.

    Raises:
        HocketError: when the two policies differ in more than adapters.
    """

    masks = True

    def __init__(
        self,
        policy: CausalLM,
        *,
        max_rows: int = 256,
        max_bytes: int = MAX_BYTES,
        lobby: Lobby | None = None,
        beside: LocalEngine | None = None,
    ) -> None:
        if beside is not None and not batch_together(beside.policy, policy):
            raise HocketError(f"policies {beside.policy.name!r} and {policy.name!r} differ in more than their adapters")
        super().__init__(max_rows=max_rows if beside is None else beside.max_rows, lobby=lobby, beside=beside)
        self.policy: CausalLM = policy
        self.max_bytes: int = max_bytes if beside is None else beside.max_bytes
        self._context_length = policy.context_length
        self._stops = StopStrings(policy.tokenizer)
        self._company: _Company = _Company() if beside is None else beside._company
        self._company.engines.append(self)
        self._company.cache = None

    @property
    def context_length(self) -> int | None:
        return self._context_length

    @property
    def counts(self) -> Counts:
        return self._company.counts

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples all requests now; results in the order given."""
        return self._sample([(self, request) for request in requests])

    def release(self) -> None:
        """Gives back the memory of what is kept between calls."""
        self._company.cache = None

    def _answer(self, asked: Sequence[tuple[BatchedEngine, Request]]) -> list[Sample]:
        alone = len(self._company.engines) == 1
        return super()._answer(asked) if alone else self._sample(asked)

    def _sample(self, asked: Sequence[tuple[BatchedEngine, Request]]) -> list[Sample]:
        numbered = [
            _Asked(place, request, engine._limit(request), cast(LocalEngine, engine))
            for place, (engine, request) in enumerate(asked)
        ]
        numbered.sort(key=lambda item: item.request.key)
        found: dict[int, Sample] = {}
        with torch.inference_mode():
            paged, rest = self._split(numbered)
            if paged:
                found.update(self._run_paged(paged))
            for engine in self._company.engines:
                with engine.policy.applied():
                    for wave in engine._waves([item for item in rest if item.engine is engine]):
                        found.update(engine._run_wave(wave))
        return [found[place] for place in range(len(asked))]

    # ------------------------------------------------------------ over pages

    def _split(self, numbered: list[_Asked]) -> tuple[list[_Asked], list[_Asked]]:
        """Requests that the paged engine can serve, and the others."""
        model = self.policy.model
        if _kernels(self.policy) is None:
            return [], numbered
        under_masks = [item for item in numbered if item.request.decoding.nucleus < 1]
        if under_masks:
            # The pages know one model only; under masks two of them run in lockstep.
            paged, rest = self._split([item for item in numbered if item.request.decoding.nucleus >= 1])
            return paged, [*rest, *under_masks]
        lengths = [len(item.request.tokens) + item.limit for item in numbered]
        if supports(model, max(lengths, default=0)):
            return numbered, []
        fits = [supports(model, length) for length in lengths]
        return (
            [item for item, fit in zip(numbered, fits, strict=True) if fit],
            [item for item, fit in zip(numbered, fits, strict=True) if not fit],
        )

    def _run_paged(self, numbered: list[_Asked]) -> dict[int, Sample]:
        company = self._company
        alone = len(company.engines) == 1
        # One policy's model is used as it is; of several only the base is, and adapters are put in row by row.
        with self.policy.applied() if alone else nullcontext():
            cache = self._current_cache()
            tape = self.policy.tape if alone else None
            cache.record(tape if tape is not None and tape.weights == self.policy.fingerprint() else None)
            requests, limits = [item.request for item in numbered], [item.limit for item in numbered]
            owners = [company.engines.index(item.engine) for item in numbered]
            written = Responses(requests, limits, self.policy.stop_ids, self._stops, cache.model.vocabulary)
            Continuous(cache, requests, limits, written, self.counts, self.max_rows, owners).run()
        return {item.place: written.sample(row, item.engine.policy.version) for row, item in enumerate(numbered)}

    def _current_cache(self) -> PagedCache:
        """What was computed with the weights as they are now."""
        company, model, precision = self._company, self.policy.model, self.policy.precision
        weights = [policy.fingerprint() for policy in company.policies]
        if company.cache is None:
            chosen = _kernels(self.policy)
            assert chosen is not None
            company.cache = PagedCache(model, precision, chosen, self.max_bytes, self._adapters())
        elif weights != company.weights:
            changed = [number for number, one in enumerate(weights) if one != company.weights[number]]
            company.cache.renew(model, precision, self._adapters(), changed)
        company.weights = weights
        return company.cache

    def _adapters(self) -> list[Adapters] | None:
        """Of every policy beside this one and of its own; None where it is alone."""
        policies, found = self._company.policies, []
        if len(policies) == 1:
            return None
        for policy in policies:
            with policy.applied():
                found.append(adapters_of(policy.model, policy.precision))
        return found

    @property
    def _cache(self) -> PagedCache | None:
        return self._company.cache

    # ------------------------------------------------------------ in waves

    def _waves(self, numbered: list[_Asked]) -> Iterator[list[_Asked]]:
        """Requests decoded together: whole batches on the fast path, equal context lengths on the other."""
        fast: dict[bool, list[_Asked]] = {}
        by_length: dict[tuple[bool, int], list[_Asked]] = {}
        for item in numbered:
            under_masks = item.request.decoding.nucleus < 1
            if supports(self.policy.model, len(item.request.tokens) + item.limit):
                fast.setdefault(under_masks, []).append(item)
            else:
                by_length.setdefault((under_masks, len(item.request.tokens)), []).append(item)
        for group in (*fast.values(), *by_length.values()):
            for start in range(0, len(group), self.max_rows):
                yield group[start : start + self.max_rows]

    def _run_wave(self, wave: list[_Asked]) -> dict[int, Sample]:
        # Requests of one context stand side by side.
        wave = sorted(wave, key=lambda item: item.request.tokens)
        precision = self.policy.precision
        longest = max(len(item.request.tokens) + item.limit for item in wave)

        def session_of(model: Any, contexts: Sequence[tuple[int, ...]]) -> Session:
            if supports(model, longest):
                return DecoderSession(model, contexts, precision)
            return CachedSession(model, contexts)

        requests, limits = [item.request for item in wave], [item.limit for item in wave]
        if requests[0].decoding.nucleus < 1:
            contexts = [request.tokens for request in requests]
            delayed = session_of(self.policy.delayed_model(), contexts)
            session = MaskedSession(session_of(self.policy.model, contexts), delayed, requests)
            written = Decoding(requests, limits, self.policy.stop_ids, self._stops).run(session, self.policy.version)
            samples = session.completed(written, requests)
        else:
            samples = decode(
                requests, limits, lambda contexts: session_of(self.policy.model, contexts), self._stops, self.policy
            )
        return {item.place: sample for item, sample in zip(wave, samples, strict=True)}


def _kernels(policy: CausalLM) -> Kernels | None:
    """What the paged engine computes with; None where it cannot serve a policy."""
    model = policy.model
    if model.device.type != "cpu" or model.dtype is not torch.float32 or not supports(model, 1):
        return None
    return cast(Kernels, kernels) if kernels.available(head_size(model)) else None
