"""Sampling from a causal language model in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch

from hocket.core.errors import HocketError
from hocket.core.notices import say
from hocket.engine.barrier import Barrier, LiveEpisode
from hocket.engine.batched_engine import BatchedEngine, Pending, Promise
from hocket.engine.decoder import DecoderSession
from hocket.engine.decoding import LockstepDecoding, Responses, decode
from hocket.engine.masked_session import MaskedSession
from hocket.engine.paged_model import PagedCache, PassRecord, SamplingCounts
from hocket.engine.requests import Request, Sample
from hocket.engine.rereading_session import REREAD, RereadingSession
from hocket.engine.running import Asker, Running, Ticket
from hocket.engine.scheduler import Scheduler
from hocket.engine.session import Session
from hocket.engine.stops import StopStrings
from hocket.policies.batching import batch_together
from hocket.policies.family import Adapters, adapters_of
from hocket.policies.form_reading import known_form
from hocket.policies.native_pass import cache_traits, steady_length
from hocket.policies.operations import COMPILED, Functions, common_column
from hocket.policies.support import supports

if TYPE_CHECKING:
    from hocket.engine.cached_session import CachedSession
    from hocket.engine.context_store import ContextStore
    from hocket.policies.causal_lm import CausalLM

MAX_BYTES = 4 * 2**30
"""Keys and values kept unless a number is given; on an accelerator a quarter of its memory if that is more."""

_Masks = tuple[str | None] | None
"""A tuple with the copy that masks read (None for the policy itself); None without masks."""


class _Asked(NamedTuple):
    """A request, its limit of response tokens, its engine, and the task and workflow that wait."""

    request: Request
    limit: int
    engine: LocalEngine
    asker: Asker
    live: LiveEpisode | None = None


@dataclass(eq=False)
class _Place:
    """Holds an answer for a caller in the same thread."""

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
    """Engines that sample together, and their shared cache.

    Attributes:
        weights: fingerprints of the policies' weights that the cache belongs to.
        interrupted: see `LocalEngine.interrupted`.
        running: the batch in progress. began: the cache, weights and activation cache with which it began.
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
        """Records the cache and weights with which a batch begins."""
        self.began = began
        self._tensors = [tensor for policy in self.policies for tensor in policy.acting_parameters()]
        self._changes = self._seen()

    def untouched(self) -> bool:
        """Whether no weight has been written since the batch began; fast enough for a call between any two passes."""
        return self.cache is not None and self._seen() == self._changes

    def _seen(self) -> list[int]:
        changes = [0 if tensor.is_inference() else tensor._version for tensor in self._tensors]
        return [*(policy.version for policy in self.policies), *changes]

    @property
    def policies(self) -> list[CausalLM]:
        return [engine.policy for engine in self.engines]


class LocalEngine(BatchedEngine):
    """Batched sampling from one policy, always with its current weights; implements `hocket.engine.requests.Engine`.

    A request's tokens and log-probs depend on its key, context and weights, not on the rest of the batch: to the last
    bit with the kernels (see `hocket.policies.kernels`), else up to float rounding. Keys and values of contexts and
    responses are cached in pages until the weights change: the history of a conversation is computed once.

    Log-probs are those of the distribution drawn from: at the request's temperature, and of the cut vocabulary when
    `decoding.truncates`; greedy and forced tokens have those of the uncut distribution (greedy at temperature 1).

    Engines of policies that share a base (see `hocket.policies.shared_base`) can sample together: their pending
    requests run as one batch, each row with the adapter of its policy.

    Attributes:
        counts: what was read, reused and drawn so far, by all engines that sample together.

    Args:
        policy: the policy to sample.
        max_rows: continuations decoded together; others wait, in key order.
        max_bytes: memory of keys and values, see `MAX_BYTES`; when it is full, the least recently used are evicted.
        barrier: shared by the engines of one run, so that a workflow that waits for one of them counts for all.
        drafts: the most tokens that n-gram lookup drafts for a row of a pass over pages; the tokens stay the same.
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
        max_bytes: int | None = None,
        barrier: Barrier | None = None,
        beside: LocalEngine | None = None,
        drafts: int = 0,
    ) -> None:
        if beside is not None and not batch_together(beside.policy, policy):
            raise HocketError(f"policies {beside.policy.name!r} and {policy.name!r} differ in more than their adapters")
        super().__init__(max_rows=max_rows if beside is None else beside.max_rows, barrier=barrier, beside=beside)
        self.policy: CausalLM = policy
        most = max_bytes or _most_bytes(policy.device)
        self.max_bytes: int = most if beside is None else beside.max_bytes
        self.drafts: int = drafts if beside is None else beside.drafts
        if self.drafts and (_functions(policy) is None or known_form(policy.model).recurrent):
            kind = policy.model.config.model_type
            say(f"policy {policy.name!r}: no tokens are drafted, as not every layer of {kind} attends over pages")
        self._context_length = policy.context_length
        self._stops = StopStrings(policy.tokenizer)
        self._company: _Company = _Company() if beside is None else beside._company
        self._company.engines.append(self)
        self._contexts: tuple[tuple[int, ...], ContextStore] | None = None
        self._equal_lengths = False
        self.release()

    def like(self, policy: CausalLM) -> LocalEngine:
        """An engine for another policy with the same settings and barrier; it samples together if they share a base."""
        beside = self if batch_together(self.policy, policy) else None
        settings = {"max_rows": self.max_rows, "max_bytes": self.max_bytes, "drafts": self.drafts}
        return LocalEngine(policy, **settings, barrier=self.barrier, beside=beside)

    @property
    def context_length(self) -> int | None:
        return self._context_length

    @property
    def interrupted(self) -> bool:
        """Whether unfinished responses continue with the new weights when the weights change.

        If so they keep their tokens, and their samples record the version that wrote each token; else they begin again.
        Holds for all engines that sample together, and only over pages; otherwise a response has a single version.
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
        """Frees the memory of the cache; responses in progress begin again."""
        company = self._company
        company.cache = self._contexts = None
        if company.running is not None and not company.running.tickets:
            company.running = None

    def _answer(self, requests: Sequence[tuple[BatchedEngine, Request]]) -> list[Sample]:
        alone = len(self._company.engines) == 1
        return super()._answer(requests) if alone else self._sample(requests)

    def _sample(self, requests: Sequence[tuple[BatchedEngine, Request]]) -> list[Sample]:
        places = [_Place() for _ in requests]
        entries = [_asked(engine, request, place) for (engine, request), place in zip(requests, places, strict=True)]
        with torch.inference_mode():
            paged, rest = self._split(entries)
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
        """Adds pending requests that pages can serve to the batch in progress, and runs it until one is answered."""
        entries = [
            _asked(pending.engine, pending.request, pending.promise, pending.promise.live)
            for pending in self._pending.values()
            if pending.promise.waits
        ]
        self._pending.clear()
        with torch.inference_mode():
            try:
                paged, rest = self._split(entries)
            except Exception as error:  # Nobody else would hear of it, and the workflows would wait for ever.
                for item in entries:
                    item.asker.fail(error)
                return True
            for item in rest:
                promise = cast(Promise, item.asker)
                self._pending[promise] = Pending(item.engine, item.request, promise)
            return self._advance(paged)

    def _tidy(self) -> None:
        if self._company.running is not None:
            self._company.running.tidy()

    def _run_waves(self, entries: list[_Asked]) -> None:
        """Samples requests that pages cannot serve."""
        entries = sorted(entries, key=lambda item: item.request.key)
        for engine in self._company.engines:
            with engine.policy.applied():
                for wave in engine._waves([item for item in entries if item.engine is engine]):
                    longest = max(len(item.request.tokens) + item.limit for item in wave)
                    fast = supports(engine.policy.model, longest)
                    with nullcontext() if fast else engine.policy.narrowed():
                        engine._run_wave(wave)

    # ------------------------------------------------------------ over pages

    def _split(self, numbered: list[_Asked]) -> tuple[list[_Asked], list[_Asked]]:
        """The requests that the paged engine can serve, and the others."""
        model = self.policy.model
        if not numbered:
            return [], []
        if _functions(self.policy) is None:
            return [], numbered
        under_masks = [item for item in numbered if item.request.decoding.mask is not None]
        if under_masks:
            # Pages hold a single model; masks may need two models in lockstep.
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
        """Adds `new` requests to the batch in progress and runs it until one is answered.

        Returns whether there was any work.
        """
        if self._company.running is None and not new:
            return False
        earlier = self._company.running
        try:
            # A single policy's own model runs; for several the base runs, with adapters per row.
            with self.policy.applied() if len(self._company.engines) == 1 else nullcontext():
                running = self._current()
                running.enter(self._tickets(new))
                return running.go_on()
        except Exception as error:
            for batch in (earlier, self._company.running):
                for ticket in [] if batch is None else batch.tickets:
                    ticket.asker.fail(error)
            for entry in new:
                entry.asker.fail(error)
            self._company.running = None
            return True
        except BaseException:  # After Ctrl-C the waiting tasks are cancelled elsewhere.
            self._company.running = None
            raise

    def _tickets(self, entries: Sequence[_Asked]) -> list[Ticket]:
        engines = self._company.engines
        return [
            Ticket(item.request, item.limit, engines.index(item.engine), item.engine.policy, item.asker, item.live)
            for item in entries
        ]

    def _current(self) -> Running:
        """The batch in progress. If the weights changed since it began, its responses begin again or continue."""
        company, earlier = self._company, self._company.running
        if earlier is not None and earlier.busy and company.untouched():
            return earlier
        activations, cache = self._activations(), self._current_cache()
        began = cache, company.weights, activations
        if earlier is None or began != company.began:
            cache.record(activations)
            written = Responses([], [], self.policy.stop_ids, self._stops, cache.model.vocabulary)
            versions = [policy.version for policy in company.policies]
            company.running = Running(
                Scheduler(cache, written, self.counts, self.max_rows, self.drafts), written, versions
            )
            company.begin(began)
            if earlier is not None:
                company.running.enter(earlier.interrupted() if company.interrupted else earlier.tickets)
        assert company.running is not None
        return company.running

    def _activations(self) -> PassRecord | None:
        """Where what is computed is kept for the learner, if it is."""
        if len(self._company.engines) > 1 or self.policy.model.device.type != "cpu":
            return None
        if self.policy.routes is not None:
            return self.policy.routes
        activations = self.policy.activations
        return activations if activations is not None and activations.weights == self.policy.fingerprint() else None

    def _current_cache(self) -> PagedCache:
        """The cache of keys and values under the current weights."""
        company, model, precision = self._company, self.policy.model, self.policy.precision
        weights = [policy.fingerprint() for policy in company.policies]
        if company.cache is None:
            chosen = _functions(self.policy)
            assert chosen is not None
            company.cache = PagedCache(model, precision, chosen, self.max_bytes, self._adapters())
        elif weights != company.weights:
            changed = [number for number, weight in enumerate(weights) if weight != company.weights[number]]
            company.cache.renew(model, precision, self._adapters(), changed)
        company.weights = weights
        return company.cache

    def _adapters(self) -> list[Adapters] | None:
        """The adapters of all policies that sample together; None for a single policy."""
        policies, adapters = self._company.policies, []
        if len(policies) == 1:
            return None
        for policy in policies:
            with policy.applied():
                adapters.append(adapters_of(policy.model, policy.precision))
        return adapters

    @property
    def _cache(self) -> PagedCache | None:
        return self._company.cache

    # ------------------------------------------------------------ in waves

    def _waves(self, numbered: list[_Asked]) -> Iterator[list[_Asked]]:
        """The requests decoded together: full batches, of equal context lengths where rows cannot be padded."""
        fast: dict[_Masks, list[_Asked]] = {}
        by_length: dict[tuple[_Masks, int | None], list[_Asked]] = {}
        for item in numbered:
            mask = item.request.decoding.mask
            masks = None if mask is None else (mask.copy,)
            if _decodes(self.policy.model, len(item.request.tokens) + item.limit):
                fast.setdefault(masks, []).append(item)
            else:
                length = len(item.request.tokens)
                by_length.setdefault((masks, None if self._pads(length + item.limit) else length), []).append(item)
        if len({length for _, length in by_length if length is not None}) > 1 and not self._equal_lengths:
            self._equal_lengths = True
            kind = self.policy.model.config.model_type
            say(
                f"policy {self.policy.name!r}: padding changes what architecture {kind!r} computes, so only prompts of "
                "equal length are sampled together"
            )
        for group in (*fast.values(), *by_length.values()):
            for start in range(0, len(group), self.max_rows):
                yield group[start : start + self.max_rows]

    def _pads(self, longest: int) -> bool:
        """Whether contexts of unequal lengths, with their responses up to `longest`, can share a batch."""
        model = self.policy.model
        if model.config.model_type in REREAD:
            return False
        with self.policy.narrowed():
            steady = steady_length(model)
            return cache_traits(model).pads and (steady is None or longest <= steady)

    def _context_store(self) -> ContextStore:
        """Contexts that a model's own pass has read with the present weights."""
        from hocket.engine.context_store import ContextStore

        weights = self.policy.fingerprint()
        if self._contexts is None or self._contexts[0] != weights:
            self._contexts = weights, ContextStore(self.max_bytes)
        return self._contexts[1]

    def _run_wave(self, wave: list[_Asked]) -> None:
        # Requests with the same context are adjacent.
        wave = sorted(wave, key=lambda item: item.request.tokens)
        if any(item.request.begun is not None for item in wave):
            raise HocketError("the paged engine cannot serve these requests, and only it continues begun responses")
        precision = self.policy.precision
        longest = max(len(item.request.tokens) + item.limit for item in wave)
        opened: list[CachedSession] = []

        def session_of(model: Any, contexts: Sequence[tuple[int, ...]]) -> Session:
            if _decodes(model, longest):
                return DecoderSession(model, contexts, precision)
            if model.config.model_type in REREAD:
                return RereadingSession(model, contexts)
            from hocket.engine.cached_session import CachedSession

            opened.append(CachedSession(model, contexts, self._context_store() if model is self.policy.model else None))
            return opened[-1]

        requests, limits = [item.request for item in wave], [item.limit for item in wave]
        mask = requests[0].decoding.mask
        if mask is not None:
            contexts = [request.tokens for request in requests]
            copied = None if mask.copy is None else session_of(self.policy.model_copy(mask.copy), contexts)
            masked = MaskedSession(session_of(self.policy.model, contexts), copied, requests)
            written = LockstepDecoding(requests, limits, self.policy.stop_ids, self._stops).run(
                masked, self.policy.version
            )
            samples = masked.completed(written, requests)
        else:
            samples = decode(
                requests, limits, lambda contexts: session_of(self.policy.model, contexts), self._stops, self.policy
            )
        for session in opened:
            session.end([len(sample.tokens) for sample in samples])
        for item, sample in zip(wave, samples, strict=True):
            item.asker.answer(sample)


def _asked(engine: BatchedEngine, request: Request, asker: Asker, live: LiveEpisode | None = None) -> _Asked:
    return _Asked(request, engine._limit(request), cast(LocalEngine, engine), asker, live)


def _decodes(model: Any, longest: int) -> bool:
    """Whether a `DecoderSession` serves."""
    return supports(model, longest) and known_form(model).plain


def _most_bytes(device: torch.device) -> int:
    memory = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
    return max(MAX_BYTES, memory // 4)


def _functions(policy: CausalLM) -> Functions | None:
    """What the paged engine computes with; None if it cannot serve a policy."""
    model = policy.model
    if model.dtype is not torch.float32 or not supports(model, 1):
        return None
    form = known_form(model)
    column = common_column(model.device, model.dtype, form.shapes)
    # States of layers that have them are computed by the kernels in C++ alone.
    if form.recurrent and column is not COMPILED:
        return None
    # Triton places a pass for one number of query heads to a key head.
    several = len({heads // shared for heads, shared, _ in form.shapes}) > 1
    return None if several and column.functions().RECORDABLE else column.functions()
