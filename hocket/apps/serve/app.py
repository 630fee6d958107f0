"""The endpoint: OpenAI's chat completions, completions and embeddings over HTTP, in front of a `Backend`."""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
import struct
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hocket.apps.serve.addresses import addressed, is_loopback
from hocket.apps.serve.backend import Backend, Caller, TextBackend
from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.completions import collected, collected_texts, streamed, streamed_texts
from hocket.apps.serve.refusals import Refusal
from hocket.apps.serve.schema import openapi
from hocket.apps.serve.wire import (
    ChatRequest,
    CompletionRequest,
    Embedding,
    EmbeddingRequest,
    Embeddings,
    EmbeddingUsage,
    Health,
    Model,
    Models,
    read_report,
    read_request,
)

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    Endpoint = Callable[[Request], Awaitable[Response]]

T = TypeVar("T")

_LOG = logging.getLogger("hocket.apps.serve")
_MISTAKE = Refusal(500, "the server made a mistake, which its own output tells", code="mistake")


def build_app(backend: Backend, bounds: Bounds, *, episodes: bool = False, local_only: bool = False) -> Starlette:
    """The application. With `episodes` it has their addresses too: `/e/EPISODE/v1/..` and `/e/EPISODE/reward`.

    With `local_only` it answers to this machine's own names alone, so that no page of the web can ask it under another.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import BaseRoute, Route

    house = _House(backend, bounds)
    document = msgspec.json.encode(openapi(episodes=episodes, texts=isinstance(backend, TextBackend), bounds=bounds))

    async def described(request: Request) -> Response:
        return _json(document)

    def served(path: str, endpoint: Endpoint, method: str) -> list[BaseRoute]:
        prefixes = ("", "/e/{episode}") if episodes else ("",)
        return [Route(prefix + path, careful(endpoint), methods=[method]) for prefix in prefixes]

    careful = functools.partial(_careful, local_only=local_only)
    routes: list[BaseRoute] = [
        Route("/health", careful(house.health), methods=["GET"]),
        Route("/openapi.json", careful(described), methods=["GET"]),
        *served("/v1/models", house.models, "GET"),
        *served("/v1/models/{model:path}", house.model, "GET"),
        *served("/v1/chat/completions", house.chat, "POST"),
    ]
    if isinstance(backend, TextBackend):
        texts = _Texts(house, backend)
        routes += served("/v1/completions", texts.complete, "POST") + served("/v1/embeddings", texts.embed, "POST")
    if episodes:
        routes.append(Route("/e/{episode}/reward", careful(house.reward), methods=["POST"]))
    return Starlette(routes=routes, exception_handlers={HTTPException: _unrouted})


class _House:
    """The endpoints."""

    def __init__(self, backend: Backend, bounds: Bounds) -> None:
        self._backend = backend
        self._bounds = bounds
        self._working = 0
        self._began = int(time.time())

    async def health(self, request: Request) -> Response:
        return _json(Health(self._backend.weights()))

    async def models(self, request: Request) -> Response:
        self.admitted(request)
        return _json(Models([Model(name, self._began) for name in self._backend.models()]))

    async def model(self, request: Request) -> Response:
        self.admitted(request)
        name = request.path_params["model"]
        if name not in self._backend.models():
            raise Refusal(404, f"there is no model {name!r}", code="model_not_found", param="model")
        return _json(Model(name, self._began))

    async def reward(self, request: Request) -> Response:
        caller = self.admitted(request)
        self._backend.report(caller, read_report(await self.body(request)))
        return _json({"status": "ok"})

    async def chat(self, request: Request) -> Response:
        caller = self.admitted(request)
        async with self.work():
            body = await self.body(request)
            chat = read_request(body, ChatRequest)
            if len(chat.messages) > self._bounds.messages:
                most = f"a conversation may have {self._bounds.messages} messages"
                raise Refusal(400, most, code="too_many_messages", param="messages")
            job = await _unless_gone(request, self._backend.open(caller, body, chat))
            created = int(time.time())
            if chat.stream:
                return self.stream(streamed(job, chat, created))
            return _json(await _unless_gone(request, collected(job, chat, created)))

    @asynccontextmanager
    async def work(self) -> AsyncGenerator[None, None]:
        """A place among the requests that are worked on, for as long as one may take."""
        if self._working >= self._bounds.requests:
            raise Refusal(429, "too many requests are worked on; come back later", code="busy", retry_after="1")
        self._working += 1
        try:
            async with asyncio.timeout(self._bounds.work_seconds):
                yield
        except TimeoutError:
            raise _late(self._bounds.work_seconds) from None
        finally:
            self._working -= 1

    def stream(self, documents: AsyncGenerator[Any, None]) -> Response:
        from starlette.responses import StreamingResponse

        async def events() -> AsyncGenerator[bytes, None]:
            self._working += 1
            limit = self._bounds.work_seconds
            end = None if limit is None else asyncio.get_running_loop().time() + limit
            try:
                async with aclosing(documents) as chunks:
                    while True:
                        # Only what is waited for here: the reader's time is bounded by the connection.
                        async with asyncio.timeout_at(end):
                            chunk = await anext(chunks, None)
                        if chunk is None:
                            break
                        yield _event(chunk)
                yield b"data: [DONE]\n\n"
            except Refusal as refusal:
                yield _event(refusal.body())
            except TimeoutError:
                yield _event(_late(limit).body())
            except Exception:
                _LOG.exception("a stream broke off")
                yield _event(_MISTAKE.body())
            finally:
                self._working -= 1

        class Events(StreamingResponse):
            async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
                # Otherwise a stream whose reader has left stays as it is until it is swept up.
                async with aclosing(lines):
                    await super().__call__(scope, receive, send)

        lines = events()
        return Events(lines, media_type="text/event-stream", headers={"cache-control": "no-cache"})

    def admitted(self, request: Request) -> Caller:
        """Who asks, once they may."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        caller = Caller(
            episode=request.path_params.get("episode"),
            key=key.strip() if scheme.lower() == "bearer" and key.strip() else None,
            retry=request.headers.get("idempotency-key"),
            again=request.headers.get("x-stainless-retry-count", "0") not in ("", "0"),
            local=_local(request),
        )
        self._backend.admit(caller)
        return caller

    async def body(self, request: Request) -> bytes:
        """The body, unless it is too large, too slow, or no JSON."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            # A page of the web may send other types here without asking the browser first.
            raise Refusal(415, "send the body as content-type application/json", code="unsupported_media_type")
        most, received = self._bounds.body_bytes, bytearray()
        too_large = Refusal(413, f"a body may have {most} bytes", code="body_too_large", connection="close")
        declared = request.headers.get("content-length", "0")
        if declared.isdecimal() and int(declared) > most:
            raise too_large
        try:
            async with asyncio.timeout(self._bounds.body_seconds):
                async for part in request.stream():
                    received += part
                    if len(received) > most:
                        raise too_large
        except TimeoutError:
            raise Refusal(408, "the body came too slowly", code="slow_body", connection="close") from None
        return bytes(received)


class _Texts:
    """The endpoints of a backend that continues and embeds texts."""

    def __init__(self, house: _House, backend: TextBackend) -> None:
        self._house, self._backend = house, backend

    async def complete(self, request: Request) -> Response:
        self._house.admitted(request)
        async with self._house.work():
            prompts = read_request(await self._house.body(request), CompletionRequest)
            job = await _unless_gone(request, self._backend.complete(prompts))
            created = int(time.time())
            if prompts.stream:
                return self._house.stream(streamed_texts(job, prompts, created))
            return _json(await _unless_gone(request, collected_texts(job, prompts, created)))

    async def embed(self, request: Request) -> Response:
        self._house.admitted(request)
        async with self._house.work():
            texts = read_request(await self._house.body(request), EmbeddingRequest)
            vectors = await _unless_gone(request, self._backend.embed(texts))
            data = [Embedding(number, _spelt(row, texts.encoding_format)) for number, row in enumerate(vectors.rows)]
            return _json(Embeddings(data, vectors.model, EmbeddingUsage(vectors.tokens, vectors.tokens)))


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Waits for `work`, and gives it up when the client has left.

    Raises:
        Refusal: when the client has left; nobody reads it.
    """

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.create_task(work), asyncio.create_task(left())
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Refusal(499, "the client has left", code="client_left")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


def _local(request: Request) -> bool:
    """Whether a request is addressed to this machine by a name of its own."""
    return is_loopback(addressed(request.headers.get("host", "")) or "")


def _careful(endpoint: Endpoint, *, local_only: bool) -> Endpoint:
    """An endpoint whose refusals, and mistakes, are told in OpenAI's form."""

    async def answered(request: Request) -> Response:
        try:
            if local_only and not _local(request):
                raise Refusal(403, "without a key this server answers to localhost only", code="wrong_host")
            return await endpoint(request)
        except Refusal as refusal:
            return _json(refusal.body(), refusal.status, refusal.headers)
        except Exception:
            _LOG.exception("a request could not be answered")
            return _json(_MISTAKE.body(), _MISTAKE.status)

    return answered


def _late(seconds: float | None) -> Refusal:
    return Refusal(504, f"the request took more than {seconds} seconds", code="timeout")


async def _unrouted(request: Request, error: Exception) -> Response:
    """Addresses and methods that nobody serves."""
    status, headers = getattr(error, "status_code", 500), getattr(error, "headers", None)
    words = {404: "there is nothing at this address", 405: "this address does not take this method"}
    refusal = Refusal(status, words.get(status, str(error)), code="not_found" if status == 404 else "not_allowed")
    return _json(refusal.body(), status, headers)


def _spelt(row: list[float], form: str | None) -> list[float] | str:
    """A vector as numbers, or as the base64 of its float32 bytes."""
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode() if form == "base64" else row


def _event(document: Any) -> bytes:
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def _json(document: Any, status: int = 200, headers: Any = None) -> Response:
    from starlette.responses import Response

    body = document if isinstance(document, bytes) else msgspec.json.encode(document)
    return Response(body, status, headers, media_type="application/json")
