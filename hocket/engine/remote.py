"""Sampling from a model behind an OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import numpy as np

from hocket.core.errors import ConfigurationError, HocketError
from hocket.engine.barrier import Barrier
from hocket.engine.remote_http import Endpoint, EndpointError
from hocket.engine.remote_wire import ServerAnswer, read_text, read_tokens, tells_logp, text_body, tokens_body
from hocket.engine.requests import ContextFull, Request, Sample
from hocket.types import Decoding

T = TypeVar("T")


class EngineJournal(Protocol):
    """Stores outside results by key, so that a resumed run replays them instead of asking again."""

    def get(self, key: str) -> Any:
        """The value at `key`, or something falsy."""
        ...

    def put(self, key: str, value: Any) -> object:
        """Stores `value`, which is plain data, and returns it."""
        ...


class RemoteEngine:
    """Samples from a server, for roles that are not trained: a judge, a simulated user, an opponent.

    By text (`/chat/completions`) it sends a request's messages and encodes the answer for the record; log-probs are
    unknown. By `tokens` (`/completions`) it sends the exact ids, and a server that returns ids (vLLM) gives exact
    tokens. Log-probs are recorded if they are those of the distribution drawn from.

    A workflow with a call in flight does not count as waiting. Engines whose answers depend on their batch run the next
    batch when the answers have arrived (or the barrier's patience ends), so that it does not depend on the server's
    speed. Answers, and failures of single requests, are journalled by the request's key and content.

    Args:
        endpoint: the server and its model.
        encode: encodes answers that arrive as text.
        tokens: send token ids instead of messages.
        stops: ids that end a response sampled by token ids; the first one closes an answer that arrived as text.
        processed: the server's log-probs are already those of the distribution drawn from.
        journal: stores answers for a resume; None asks again.
        barrier: shared by the engines of one run.
    """

    version = 0

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        encode: Callable[[str], Sequence[int]],
        tokens: bool = False,
        stops: Sequence[int] = (),
        processed: bool = False,
        journal: EngineJournal | None = None,
        barrier: Barrier | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.barrier = barrier if barrier is not None else Barrier()
        self._encode = encode
        self._tokens = tokens
        self._stops = tuple(stops)
        self._processed = processed
        self._journal = journal
        self._worked = False
        self._gate: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    def episode(self) -> AbstractAsyncContextManager[None]:
        """Marks a live workflow in the shared barrier."""
        return self.barrier.episode()

    async def submit(self, request: Request) -> Sample:
        """Waits for one answer.

        Raises:
            ContextFull: when the context leaves no room for a response.
            ConfigurationError: when the address, key or model is wrong, no server answers, or no request ever worked.
            EndpointError: when this request failed although others worked.
        """
        path, body = self._question(request)
        entry = self._entry(request, path, body)
        recorded = self._kept(entry)
        if recorded is None:
            async with self._slot():
                recorded = await _in_thread(lambda: self._asked(path, body, request))
            self._keep(entry, recorded)
        return self._sample(request, recorded)

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Sends all requests now, as many at a time as the endpoint allows; results in the order given."""
        questions = [(request, *self._question(request)) for request in requests]
        entries = [self._entry(*question) for question in questions]
        known = {entry: recorded for entry in entries if (recorded := self._kept(entry)) is not None}
        open_ = [(entry, *question) for entry, question in zip(entries, questions, strict=True) if entry not in known]
        with ThreadPoolExecutor(min(self.endpoint.concurrency, max(1, len(open_)))) as pool:
            answers = list(pool.map(lambda item: self._asked(item[2], item[3], item[1]), open_))
        for (entry, *_), answer in zip(open_, answers, strict=True):
            self._keep(entry, answer)
            known[entry] = answer
        return [self._sample(request, known[entry]) for request, entry in zip(requests, entries, strict=True)]

    # ------------------------------------------------------------ asking

    def _question(self, request: Request) -> tuple[str, dict[str, Any]]:
        if self._tokens:
            return "/completions", tokens_body(request, self.endpoint.model, self._stops)
        return "/chat/completions", text_body(request, self.endpoint.model)

    def _asked(self, path: str, body: dict[str, Any], request: Request) -> dict[str, Any]:
        """The outcome of a question as plain data: an answer, or the reason for none."""
        try:
            document = self.endpoint.read(path, body, request.key, read_tokens if self._tokens else read_text)
        except ContextFull as full:
            return {"full": str(full)}
        except ConfigurationError:
            raise
        except HocketError as error:
            if not self._worked:  # This concerns all questions, so no episode could succeed.
                raise ConfigurationError(str(error)) from error
            return {"failure": str(error)}
        self._worked = True
        return {"answer": document}

    def _slot(self) -> asyncio.Semaphore:
        """Bounds the number of open questions. A semaphore belongs to an event loop, and each step may have another."""
        loop = asyncio.get_running_loop()
        if self._gate is None or self._gate[0] is not loop:
            self._gate = loop, asyncio.Semaphore(self.endpoint.concurrency)
        return self._gate[1]

    # ------------------------------------------------------------ remembering

    def _entry(self, request: Request, path: str, body: dict[str, Any]) -> str:
        """The journal's key of a question: its place in the run and its content, without the server's address."""
        text = json.dumps([str(request.key), path, body], sort_keys=True)
        return f"engine/{self.endpoint.model}/{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"

    def _kept(self, entry: str) -> dict[str, Any] | None:
        return (self._journal.get(entry) or None) if self._journal is not None else None

    def _keep(self, entry: str, outcome: dict[str, Any]) -> None:
        if self._journal is not None:
            self._journal.put(entry, outcome)

    # ------------------------------------------------------------ understanding

    def _tells_logp(self, decoding: Decoding) -> bool:
        """Whether log-probs in answers are those of the distribution drawn from."""
        return tells_logp(decoding, processed=self._processed)

    def _sample(self, request: Request, outcome: dict[str, Any]) -> Sample:
        if "full" in outcome:
            raise ContextFull(outcome["full"])
        if "failure" in outcome:
            raise EndpointError(outcome["failure"])
        answer: ServerAnswer = outcome["answer"]
        tokens, logp, text = answer["tokens"], answer["logp"], None
        if tokens is None:
            text, tokens = answer["text"], list(self._encode(answer["text"]))
            tokens += self._stops[:1] if answer["finish"] == "stop" else ()
        known = logp is not None and not request.prefix and self._tells_logp(request.decoding)
        tokens_all = np.array([*request.prefix, *tokens], np.int64)
        return Sample(
            tokens=tokens_all,
            logp=np.array(logp, np.float32) if known else None,
            finish=answer["finish"],
            version=self.version,
            forced=np.arange(len(tokens_all)) < len(request.prefix),
            text=text if not request.prefix else None,
        )


async def _in_thread(work: Callable[[], T]) -> T:
    """Runs blocking work in a daemon thread, so that a call that hangs never delays the end of the run."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # From here on a cancelled waiter does not affect the thread.

    def body() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=body, name="hocket-endpoint", daemon=True).start()
    return await asyncio.wrap_future(future)
