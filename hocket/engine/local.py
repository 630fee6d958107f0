"""Sampling from a causal language model in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch

from hocket.core.errors import HocketError
from hocket.engine.barrier import Barrier, LiveEpisode
from hocket.engine.batched_engine import BatchedEngine, Pending, Promise
from hocket.engine.cached_session import CachedSession
from hocket.engine.decoder import DecoderSession
from hocket.engine.decoding import LockstepDecoding, Responses, decode
from hocket.engine.masked_session import MaskedSession
from hocket.engine.paged_model import Kernels, PagedCache, PassRecord, SamplingCounts
from hocket.engine.requests import Request, Sample
from hocket.engine.running import Asker, Running, Ticket
from hocket.engine.scheduler import Scheduler
from hocket.engine.session import Session
from hocket.engine.stops import StopStrings
from hocket.policies import kernels
from hocket.policies.batching import batch_together
from hocket.policies.family import Adapters, adapters_of, head_size
from hocket.policies.form_reading import known_form
from hocket.policies.support import supports

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM

MAX_BYTES = 4 * 2**30

_Masks = tuple[str | None] | None
"""Which copy masks read (None: the policy), in a tuple; None without masks."""


class _Asked(NamedTuple):
    """A request, the most response tokens it may have, the engine it was given to, who waits, and in which workflow."""

    request: Request
    limit: int
    engine: LocalEngine
    asker: Asker
    live: LiveEpisode | None = None


@dataclass(eq=False)
class _Place:
    """Keeps an answer for a caller that waits for it here and now."""

    sample: Sample | None = None
    error: BaseException | None = None

    @property
    def waits(self) -> bool:
        return self.sample is None and self.error is None

    def answer(self, sample: Sample) -> bool:
        self.sample = sample
        return True

    def fail(self, error: BaseException) -> None:
        self.error = error


@dataclass(eq=False)
class _Company:
    """Engines that sample together, and what they have computed.

    Attributes:
        weights: fingerprints of the policies' weights that the cache belongs to.
        interrupted: see `LocalEngine.interrupted`.
        running: what is sampled from the cache now. began: the cache, weights and activation cache that it began with.
    """

    engines: list[LocalEngine] = field(default_factory=list)
    counts: SamplingCounts = field(default_factory=SamplingCounts)
    cache: PagedCache | None = None
    weights: list[tuple[int, ...]] = field(default_factory=list)
    running: Running | None = None
    began: tuple[PagedCache, list[tuple[int, ...]], PassRecord | None] | None = None
    interrupted: bool = False
    _tensors: list[torch.Tensor] = field(default_factory=list)
    _changes: list[int] = field(default_factory=list)

    def begin(self, began: tuple[PagedCache, list[tuple[int, ...]], PassRecord | None]) -> None:
        """Remembers what a batch begins with."""
        self.began = began
        self._tensors = [tensor for policy in self.policies for tensor in policy.acting_parameters()]
        self._changes = self._seen()

    def untouched(self) -> bool:
        """Whether no weight was written to since the batch began; quick enough to ask between any two passes."""
        return self.cache is not None and self._seen() == self._changes

    def _seen(self) -> list[int]:
        changes = [0 if tensor.is_inference() else tensor._version for tensor in self._tensors]
        return [*(policy.version for policy in self.policies), *changes]

    @property
    def policies(self) -> list[CausalLM]:
        return [engine.policy for engine in self.engines]


class LocalEngine(BatchedEngine):
    """Batched sampling from one policy, always with its current weights; implements `hocket.engine.requests.Engine`.

    A request's tokens and log-probs depend on its key, context and weights, not on what is sampled beside it: to the
    last bit where the kernels run (see `hocket.policies.kernels`), else up to float rounding. There what was computed
    of contexts and responses is kept until the weights change, so that a conversation's history is never computed
    again.

    Log-probs are those of the distribution drawn from: at the request's temperature, and of the cut vocabulary when
    `decoding.truncates`; greedy and forced tokens have those of the uncut distribution (greedy at temperature 1).

    Policies that share a base (see `hocket.policies.shared_base`) can have engines beside each other: what is pending
    for any of them runs as one batch, each row with its own policy's adapter.

    Attributes:
        counts: what was read, reused and drawn so far, by all engines beside each other.

    Args:
        policy: whom to sample from.
        max_rows: continuations decoded together; more wait, in key order.
        max_bytes: of keys and values; when they are used up, those longest unused go.
        barrier: shared by the engines of one run, so that a workflow waiting for one of them counts for all.
        beside: another policy's engine to sample together with; its `max_rows`, `max_bytes` and barrier hold for both.

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
        barrier: Barrier | None = None,
        beside: LocalEngine | None = None,
    ) -> None:
        if beside is not None and not batch_together(beside.policy, policy):
            raise HocketError(f"policies {beside.policy.name!r} and {policy.name!r} differ in more than their adapters")
        super().__init__(max_rows=max_rows if beside is None else beside.max_rows, barrier=barrier, beside=beside)
        self.policy: CausalLM = policy
        self.max_bytes: int = max_bytes if beside is None else beside.max_bytes
        self._context_length = policy.context_length
        self._stops = StopStrings(policy.tokenizer)
        self._company: _Company = _Company() if beside is None else beside._company
        self._company.engines.append(self)
        self.release()

    def like(self, policy: CausalLM) -> LocalEngine:
        """An engine as this one for another policy, in the same barrier; beside this one where they share a base."""
        beside = self if batch_together(self.policy, policy) else None
        return LocalEngine(
            policy, max_rows=self.max_rows, max_bytes=self.max_bytes, barrier=self.barrier, beside=beside
        )

    @property
    def context_length(self) -> int | None:
        return self._context_length

    @property
    def interrupted(self) -> bool:
        """Whether responses that are being written when the weights change go on with the new ones.

        They keep what they have, and their samples tell which version wrote each token; else they begin again. Holds
        for engines beside each other, and where pages serve: elsewhere a response is written under one version.
        """
        return self._company.interrupted

    @interrupted.setter
    def interrupted(self, value: bool) -> None:
        self._company.interrupted = value

    @property
    def counts(self) -> SamplingCounts:
        return self._company.counts

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples all requests now; results in the order given."""
        return self._sample([(self, request) for request in requests])

    def release(self) -> None:
        """Gives back the memory of what is kept between calls; what is under way begins again."""
        company = self._company
        company.cache = None
        if company.running is not None and not company.running.tickets:
            company.running = None

    def _answer(self, asked: Sequence[tuple[BatchedEngine, Request]]) -> list[Sample]:
        alone = len(self._company.engines) == 1
        return super()._answer(asked) if alone else self._sample(asked)

    def _sample(self, asked: Sequence[tuple[BatchedEngine, Request]]) -> list[Sample]:
        places = [_Place() for _ in asked]
        told = [_asked(engine, request, place) for (engine, request), place in zip(asked, places, strict=True)]
        with torch.inference_mode():
            paged, rest = self._split(told)
            if paged:
                self._advance(paged)
            while any(item.asker.waits for item in paged):
                self._advance()
            self._run_waves(rest)
        error = next((place.error for place in places if place.error is not None), None)
        if error is not None:
            raise error
        return [cast(Sample, place.sample) for place in places]

    def _go_on(self) -> bool:
        """Lets what is pending into the batch under way, where pages serve it, and goes on until one is answered."""
        told = [
            _asked(one.engine, one.request, one.promise, one.promise.live)
            for one in self._pending.values()
            if one.promise.waits
        ]
        with torch.inference_mode():
            paged, rest = self._split(told)
            self._pending.clear()
            for item in rest:
                promise = cast(Promise, item.asker)
                self._pending[promise] = Pending(item.engine, item.request, promise)
            return self._advance(paged)

    def _tidy(self) -> None:
        if self._company.running is not None:
            self._company.running.tidy()

    def _run_waves(self, asked: list[_Asked]) -> None:
        """Samples what the pages cannot serve."""
        asked = sorted(asked, key=lambda item: item.request.key)
        for engine in self._company.engines:
            with engine.policy.applied():
                for wave in engine._waves([item for item in asked if item.engine is engine]):
                    engine._run_wave(wave)

    # ------------------------------------------------------------ over pages

    def _split(self, numbered: list[_Asked]) -> tuple[list[_Asked], list[_Asked]]:
        """Requests that the paged engine can serve, and the others."""
        model = self.policy.model
        if not numbered:
            return [], []
        if _kernels(self.policy) is None:
            return [], numbered
        under_masks = [item for item in numbered if item.request.decoding.mask is not None]
        if under_masks:
            # The pages know one model only; under masks two of them run in lockstep.
            paged, rest = self._split([item for item in numbered if item.request.decoding.mask is None])
            return paged, [*rest, *under_masks]
        lengths = [len(item.request.tokens) + item.limit for item in numbered]
        if supports(model, max(lengths, default=0)):
            return numbered, []
        fits = [supports(model, length) for length in lengths]
        return (
            [item for item, fit in zip(numbered, fits, strict=True) if fit],
            [item for item, fit in zip(numbered, fits, strict=True) if not fit],
        )

    def _advance(self, new: Sequence[_Asked] = ()) -> bool:
        """Lets `new` requests into the batch under way and goes on with it until something is answered.

        Says whether there was anything to do.
        """
        if self._company.running is None and not new:
            return False
        earlier = self._company.running
        try:
            with self._applied():
                running = self._current()
                running.enter(self._tickets(new))
                return running.go_on()
        except Exception as error:
            for batch in (earlier, self._company.running):
                for ticket in [] if batch is None else batch.tickets:
                    ticket.asker.fail(error)
            for one in new:
                one.asker.fail(error)
            self._company.running = None
            return True
        except BaseException:  # Ctrl-C: whoever waits is told by others.
            self._company.running = None
            raise

    def _tickets(self, asked: Sequence[_Asked]) -> list[Ticket]:
        engines = self._company.engines
        return [
            Ticket(one.request, one.limit, engines.index(one.engine), one.engine.policy, one.asker, one.live)
            for one in asked
        ]

    def _applied(self) -> AbstractContextManager[None]:
        """One policy's model is used as it is; of several only the base is, and adapters are put in row by row."""
        return self.policy.applied() if len(self._company.engines) == 1 else nullcontext()

    def _current(self) -> Running:
        """The batch under way; where the weights changed since it began, everything in it begins again or goes on."""
        company, earlier = self._company, self._company.running
        if earlier is not None and earlier.busy and company.untouched():
            return earlier
        activations, cache = self._activations(), self._current_cache()
        began = cache, company.weights, activations
        if earlier is None or began != company.began:
            cache.record(activations)
            written = Responses([], [], self.policy.stop_ids, self._stops, cache.model.vocabulary)
            versions = [policy.version for policy in company.policies]
            company.running = Running(Scheduler(cache, written, self.counts, self.max_rows), written, versions)
            company.begin(began)
            if earlier is not None:
                company.running.enter(earlier.interrupted() if company.interrupted else earlier.tickets)
        assert company.running is not None
        return company.running

    def _activations(self) -> PassRecord | None:
        """Where what is computed is kept for the learner, if it is."""
        if len(self._company.engines) > 1:
            return None
        if self.policy.routes is not None:
            return self.policy.routes
        activations = self.policy.activations
        return activations if activations is not None and activations.weights == self.policy.fingerprint() else None

    def _current_cache(self) -> PagedCache:
        """What was computed with the weights as they are now."""
        company, model, precision = self._company, self.policy.model, self.policy.precision
        weights = [policy.fingerprint() for policy in company.policies]
        if company.cache is None:
            chosen = _kernels(self.policy)
            assert chosen is not None
            company.cache = PagedCache(model, precision, chosen, self.max_bytes, self._adapters())
        elif weights != company.weights:
            changed = [number for number, weight in enumerate(weights) if weight != company.weights[number]]
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
        fast: dict[_Masks, list[_Asked]] = {}
        by_length: dict[tuple[_Masks, int], list[_Asked]] = {}
        for item in numbered:
            mask = item.request.decoding.mask
            masks = None if mask is None else (mask.copy,)
            if _decodes(self.policy.model, len(item.request.tokens) + item.limit):
                fast.setdefault(masks, []).append(item)
            else:
                by_length.setdefault((masks, len(item.request.tokens)), []).append(item)
        for group in (*fast.values(), *by_length.values()):
            for start in range(0, len(group), self.max_rows):
                yield group[start : start + self.max_rows]

    def _run_wave(self, wave: list[_Asked]) -> None:
        # Requests of one context stand side by side.
        wave = sorted(wave, key=lambda item: item.request.tokens)
        if any(item.request.begun is not None for item in wave):
            raise HocketError("a response that was begun elsewhere goes on over pages alone, which serve none of these")
        precision = self.policy.precision
        longest = max(len(item.request.tokens) + item.limit for item in wave)

        def session_of(model: Any, contexts: Sequence[tuple[int, ...]]) -> Session:
            if _decodes(model, longest):
                return DecoderSession(model, contexts, precision)
            return CachedSession(model, contexts)

        requests, limits = [item.request for item in wave], [item.limit for item in wave]
        mask = requests[0].decoding.mask
        if mask is not None:
            contexts = [request.tokens for request in requests]
            copied = None if mask.copy is None else session_of(self.policy.model_copy(mask.copy), contexts)
            session = MaskedSession(session_of(self.policy.model, contexts), copied, requests)
            written = LockstepDecoding(requests, limits, self.policy.stop_ids, self._stops).run(
                session, self.policy.version
            )
            samples = session.completed(written, requests)
        else:
            samples = decode(
                requests, limits, lambda contexts: session_of(self.policy.model, contexts), self._stops, self.policy
            )
        for item, sample in zip(wave, samples, strict=True):
            item.asker.answer(sample)


def _asked(engine: BatchedEngine, request: Request, asker: Asker, live: LiveEpisode | None = None) -> _Asked:
    return _Asked(request, engine._limit(request), cast(LocalEngine, engine), asker, live)


def _decodes(model: Any, longest: int) -> bool:
    """Whether a `DecoderSession` serves."""
    return supports(model, longest) and known_form(model).plain


def _kernels(policy: CausalLM) -> Kernels | None:
    """What the paged engine computes with; None where it cannot serve a policy."""
    model = policy.model
    if model.device.type != "cpu" or model.dtype is not torch.float32 or not supports(model, 1):
        return None
    return cast(Kernels, kernels) if kernels.available(head_size(model)) else None
