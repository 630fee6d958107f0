"""Answers with the current weights of a run or a model; calls that arrive together are sampled together."""

from __future__ import annotations

import asyncio
import hmac
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.agents.workflows.chat import Chat, Tokens
from hocket.apps.serve.backend import Caller, Job, Vectors
from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.event_loop import across
from hocket.apps.serve.prompt_scores import score_prompts, scored_tokens
from hocket.apps.serve.read_write_lock import ReadWriteLock
from hocket.apps.serve.refusals import Refusal, template_refusals
from hocket.apps.serve.source import ModelSource
from hocket.apps.serve.spelling import Delta, Spelling
from hocket.apps.serve.wire import (
    ChatRequest,
    CompletionRequest,
    EmbeddingRequest,
    PromptToken,
    RewardReport,
    SamplingRequest,
    template_message,
)
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.barrier import Barrier
from hocket.engine.requests import Request
from hocket.types import Decoding, Scenario, Trajectory, Turn

if TYPE_CHECKING:
    from hocket.engine.local import LocalEngine
    from hocket.policies.causal_lm import CausalLM

LEAST, MOST = 4, 64
"""Tokens that are written before an answer is looked at again: few where they take long, more where they do not."""

SOON = 0.1
"""Seconds after which a reader wants to see something."""

LARGE = 2**15
"""Bytes of a request that is not worth keeping."""

_LOG = logging.getLogger("hocket.apps.serve")


@dataclass(frozen=True)
class _Served:
    """A policy and what it is asked through."""

    name: str
    policy: CausalLM
    engine: LocalEngine
    chat: Chat


@dataclass(frozen=True)
class _Question:
    """The request with that number as the engine gets it: its prompts in tokens, and how each is continued."""

    served: _Served
    request: ChatRequest | CompletionRequest
    prompts: Sequence[tuple[Tokens, Decoding]]
    key: Key
    number: int


class CurrentBackend:
    """A `Backend` in front of a `ModelSource`. The models compute in a thread of their own, in which `_loop` runs.

    A newer checkpoint is loaded between answers: none is written with two sets of weights.

    Args:
        source: whose weights.
        bounds: of requests.
        keys: one of which a caller must show; with none, callers of this machine need no key.
        seed: of answers to requests that bring none.
        every: seconds between two looks for a newer checkpoint.
        say: is told, in a sentence, when the weights have changed.

    Raises:
        ConfigurationError: when the weights cannot be read.
    """

    def __init__(
        self,
        source: ModelSource,
        *,
        bounds: Bounds | None = None,
        keys: Sequence[str] = (),
        seed: int = 0,
        every: float = 2.0,
        say: Callable[[str], None] = _LOG.info,
    ) -> None:
        self._source = source
        self._bounds = bounds or Bounds()
        self._keys = [key.encode() for key in keys]
        self._root = Key.of(seed).derive("serve")
        self._every = every
        self._say = say
        self._served: dict[str, _Served] = {}
        self._label = ""
        self._calls = 0
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._stop: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, args=(started,), name="hocket-engine", daemon=True)
        self._thread.start()
        self._loop = started.result()

    def close(self) -> None:
        """Ends the thread."""
        self._stop()
        self._thread.join(10)

    # ------------------------------------------------------------ the backend

    def admit(self, caller: Caller) -> None:
        if not self._keys:
            if not caller.local:
                raise Refusal(403, "without a key this server answers to localhost only", code="wrong_host")
            return
        sent = (caller.key or "").encode()
        right = [hmac.compare_digest(key, sent) for key in self._keys]  # All, so that time tells nothing.
        if not any(right):
            words = "the key is wrong" if caller.key else "send a key: authorization: Bearer KEY"
            raise Refusal(401, words, code="invalid_api_key", www_authenticate="Bearer")

    def models(self) -> list[str]:
        return list(self._served)

    def weights(self) -> str:
        return self._label

    def report(self, caller: Caller, report: RewardReport) -> None:
        raise Refusal(404, "there are no episodes here", code="unknown_episode")

    def _named(self, model: str) -> _Served:
        served = self._served.get(model)
        if served is None:
            hint = nearest(model, self._served)
            raise Refusal(404, f"there is no model {model!r}{hint}", code="model_not_found", param="model")
        return served

    async def embed(self, request: EmbeddingRequest) -> Vectors:
        served = self._named(request.model)
        return await across(self._loop, lambda: self._embedded(served, request))

    async def open(self, caller: Caller, body: bytes, request: ChatRequest) -> Job:
        served, key, number = self._named(request.model), *self._next_key(request.seed)
        question = await across(self._loop, lambda: self._read(served, len(body), request, key, number))
        return self._job(question, "chatcmpl")

    async def complete(self, request: CompletionRequest) -> Job:
        served, key, number = self._named(request.model), *self._next_key(request.seed)
        question = await across(self._loop, lambda: self._read_prompts(served, request, key, number))
        render, scores = served.chat.render, list[list[dict[str, PromptToken] | None]]()
        if request.prompt_logprobs is not None:
            scores = await across(self._loop, lambda: self._scored(question, request.prompt_logprobs or 0))
        texts = [part if isinstance(part, str) else render(part) for part in request.prompts]
        return replace(self._job(question, "cmpl"), prompts=texts, scores=scores)

    def _next_key(self, seed: int | None) -> tuple[Key, int]:
        """The key of a further request, and its number."""
        self._calls += 1
        key = self._root.derive("call", self._calls) if seed is None else self._root.derive("seed", seed)
        return key, self._calls

    def _job(self, question: _Question, kind: str) -> Job:
        name = f"{self._root.derive('id', question.number)}"[:24]
        size = sum(len(tokens) for tokens, _ in question.prompts)
        return Job(f"{kind}-{name}", question.served.name, self._label, size, self._deltas(question, name))

    async def _deltas(self, question: _Question, name: str) -> AsyncGenerator[Delta, None]:
        """All answers as they grow."""
        news: asyncio.Queue[Delta | asyncio.Task[None]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(delta: Delta) -> None:
            loop.call_soon_threadsafe(news.put_nowait, delta)

        def begin(index: int) -> asyncio.Task[None]:
            task = asyncio.create_task(across(self._loop, lambda: self._write(question, index, name, tell)))
            task.add_done_callback(news.put_nowait)
            return task

        tasks = [begin(index) for index in range(question.request.choices)]
        going = len(tasks)
        try:
            while going:
                item = await news.get()
                if isinstance(item, asyncio.Task):
                    item.result()
                    going -= 1
                else:
                    yield item
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------ in the engine's thread

    def _run(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        try:
            asyncio.run(self._live(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _live(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._weights_lock = ReadWriteLock()
        self._load()
        self._stop = partial(_tell, loop, stopped)
        watching = asyncio.create_task(self._watch())
        started.set_result(loop)
        await stopped.wait()
        watching.cancel()

    def _load(self) -> None:
        """Reads the weights as they are now."""
        from hocket.engine.local import LocalEngine

        machine = self._source.machine()
        machine.apply()  # Here, because torch keeps the number of threads by thread.
        checkpoint = self._source.checkpoint()
        self._label = checkpoint.name if checkpoint else "untrained" if self._source.is_run else self._source.name
        policies = self._source.policies(checkpoint, machine)
        barrier = Barrier()
        for name, policy in policies.items():
            shown = self._source.name if len(policies) == 1 else name
            engine = LocalEngine(policy, barrier=barrier)
            self._served[shown] = _Served(shown, policy, engine, Chat(policy.tokenizer))

    async def _watch(self) -> None:
        """Loads a newer checkpoint when there is one."""
        while self._source.is_run:
            await asyncio.sleep(self._every)
            newest = self._source.newest()
            if newest is None or newest <= self._label.replace("untrained", ""):
                continue
            async with self._weights_lock.writing():
                try:
                    self._reload()
                except (ConfigurationError, OSError, ValueError) as error:
                    # The run may have dropped it meanwhile; the next look finds what replaced it.
                    _LOG.warning("%s could not be loaded: %s", newest, error)

    def _reload(self) -> None:
        from hocket.train.checkpoint import weights_in

        checkpoint = self._source.checkpoint()
        if checkpoint is None or checkpoint.name == self._label:
            return
        folders = weights_in(checkpoint)
        for served in self._served.values():
            folder = folders.get(served.policy.name)
            if folder is None:
                raise ConfigurationError(f"it has no policy {served.policy.name!r}")
            served.policy.load(folder)
            served.policy.version += 1
        self._label = checkpoint.name
        self._say(f"now serving {checkpoint.name}")

    async def _read(self, served: _Served, size: int, request: ChatRequest, key: Key, number: int) -> _Question:
        """The request in tokens."""
        messages = [template_message(message) for message in request.messages]
        with template_refusals():
            tokens = served.chat.opening(messages, request.shown_tools())
        if size > LARGE:
            served.chat.forget()  # It keeps a thousand conversations, whatever their size.
        decoding = _decoding(request, self._room(served, tokens, request.longest, "conversation", "messages"))
        if request.alternatives and decoding.truncates:
            raise _truncated("top_logprobs")
        return _Question(served, request, [(tokens, decoding)], key, number)

    async def _read_prompts(self, served: _Served, request: CompletionRequest, key: Key, number: int) -> _Question:
        """The prompts of a request for completions in tokens."""
        if request.best_of not in (None, request.n or 1):
            words = "best_of: only as many as n; ask for more answers and choose among them"
            raise Refusal(400, words, code="invalid_value", param="best_of")
        if request.prompt_logprobs is not None and request.stream:
            words = "prompt_logprobs: they come in one document; drop stream"
            raise Refusal(400, words, code="invalid_value", param="prompt_logprobs")
        if request.echo and request.scored:
            words = "echo: log-probs are of sampled tokens, not of prompts; drop echo or logprobs"
            raise Refusal(400, words, code="invalid_value", param="echo")
        prompts = []
        for prompt in request.prompts:
            tokens = tuple(served.policy.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt)
            if not tokens:
                raise Refusal(400, "prompt: it has no token", code="invalid_value", param="prompt")
            size = int(served.policy.model.config.vocab_size)
            if max(tokens) >= size:
                words = f"prompt: token {max(tokens)} is not among the {size} of the vocabulary"
                raise Refusal(400, words, code="invalid_value", param="prompt")
            room = self._room(served, tokens, request.longest, "prompt", "prompt")
            prompts.append((tokens, _decoding(request, room)))
        if request.alternatives and prompts[0][1].truncates:
            raise _truncated("logprobs")
        return _Question(served, request, prompts, key, number)

    async def _scored(self, question: _Question, top: int) -> list[list[dict[str, PromptToken] | None]]:
        """What was likely at each place of the prompts."""
        policy = question.served.policy
        async with self._weights_lock.reading():
            scored = score_prompts(policy, [tokens for tokens, _ in question.prompts], top)
        spell = lru_cache(maxsize=None)(lambda token: str(policy.tokenizer.decode([token])))
        return [
            scored_tokens(scores, tokens, spell) for scores, (tokens, _) in zip(scored, question.prompts, strict=True)
        ]

    def _room(self, served: _Served, tokens: Tokens, longest: int | None, what: str, param: str) -> int:
        """Tokens that an answer may have."""
        context = served.policy.context_length
        most = min(longest or self._bounds.tokens, self._bounds.tokens)
        room = most if context is None else min(most, context - len(tokens))
        if room < 1:
            words = f"the {what} has {len(tokens)} tokens, and the model's context is {context}; shorten it"
            raise Refusal(400, words, code="context_length_exceeded", param=param)
        return room

    async def _embedded(self, served: _Served, request: EmbeddingRequest) -> Vectors:
        """The mean of the last hidden states over the tokens of each text, scaled to length 1."""
        from hocket.train.embedders import HasStates
        from hocket.train.searching import mean_states

        if not isinstance(served.policy, HasStates):
            words = f"model: {served.name} has no hidden states to embed with"
            raise Refusal(400, words, code="no_embeddings", param="model")
        size = int(served.policy.model.config.hidden_size)
        if request.dimensions not in (None, size):
            words = f"dimensions: the vectors of {served.name} have {size}; leave it out"
            raise Refusal(400, words, code="invalid_value", param="dimensions")
        counts = [len(served.policy.tokenizer.encode(text, add_special_tokens=False)) for text in request.texts]
        context = served.policy.context_length
        if not all(counts):
            raise Refusal(400, "input: a text is empty", code="invalid_value", param="input")
        if context is not None and max(counts) >= context:
            words = f"a text has {max(counts)} tokens, and the model's context is {context}; shorten it"
            raise Refusal(400, words, code="context_length_exceeded", param="input")
        async with self._weights_lock.reading():
            states = mean_states(served.policy, request.texts)
        rows = states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return Vectors(served.name, rows.tolist(), sum(counts))

    async def _write(self, question: _Question, index: int, name: str, tell: Callable[[Delta], None]) -> None:
        """Writes one answer, some tokens at a time; in parts or at once, it says the same."""
        request, served, key = question.request, question.served, question.key.derive(index)
        prompt, most = question.prompts[index // (request.n or 1)]
        spelling = Spelling(
            served.chat,
            index,
            stops=request.stops,
            tools=isinstance(request, ChatRequest) and request.offers_tools,
            prompt=prompt,
            name=f"{name}_{index}",
            logprobs=request.scored,
        )
        written: tuple[int, ...] = ()
        # The likeliest tokens take a pass over everything, so they are asked for once.
        part = most.max_tokens if request.alternatives else LEAST
        async with self._weights_lock.reading(), served.engine.episode():
            while True:
                began = time.monotonic()
                left = most.max_tokens - len(written)
                decoding = replace(most, max_tokens=min(part, left))
                context = prompt + written
                sample = await served.engine.submit(Request(context, decoding, key, drawn=len(written)))
                written += tuple(sample.tokens.tolist())
                likely = _likely(served.policy, context, sample.tokens, decoding, request.alternatives)
                spelling.take(sample.tokens.tolist(), None if sample.logp is None else sample.logp.tolist(), likely)
                if sample.finish == "stop" or spelling.stopped or len(written) >= most.max_tokens:
                    tell(spelling.last(sample.finish))
                    return
                tell(spelling.delta())
                took = time.monotonic() - began
                part = min(2 * part, MOST) if took < SOON else max(part // 2, LEAST) if took > 4 * SOON else part


def _decoding(request: SamplingRequest, room: int) -> Decoding:
    return Decoding(
        temperature=1.0 if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        top_k=request.top_k if (request.top_k or 0) > 0 else None,
        min_p=request.min_p or 0.0,
        max_tokens=room,
    )


def _truncated(param: str) -> Refusal:
    return Refusal(400, f"{param} go with top_p 1 only, and no top_k or min_p", code="invalid_value", param=param)


def _tell(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


def _likely(
    policy: CausalLM, context: Tokens, response: NDArray[np.int64], decoding: Decoding, most: int
) -> list[list[tuple[int, float]]] | None:
    """The `most` likeliest tokens at each place of a response, under the distribution it was drawn from."""
    if not most:
        return None
    observation = np.asarray(context, np.int64)
    turn = Turn("assistant", policy.name, observation, response, decoding=decoding)
    batch = pack([Trajectory(Scenario("served"), [turn])])
    logp = policy.distributions(batch, torch.arange(len(response)))
    likely: list[list[tuple[int, float]]] = []
    for start in range(0, len(response), 64):
        places = torch.arange(start, min(start + 64, len(response)))
        best = logp(places).topk(most)
        likely += [
            list(zip(*row, strict=True)) for row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
    return likely
