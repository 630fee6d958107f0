"""What the tests of the endpoint share: a backend without weights, raw sockets, and the served nano model."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from hocket.agents.workflows.chat import Chat
from hocket.apps.serve.app import build_app
from hocket.apps.serve.backend import Backend, Caller, Job, Vectors
from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.current import CurrentBackend
from hocket.apps.serve.host import ApplicationHost
from hocket.apps.serve.refusals import Refusal
from hocket.apps.serve.source import ModelSource
from hocket.apps.serve.spelling import Delta, Spelling
from hocket.apps.serve.wire import ChatRequest, CompletionRequest, EmbeddingRequest, RewardReport
from hocket.nano import BASE
from hocket.nano.tokenizer import build_tokenizer

WAIT = 30.0
"""Seconds after which something that should happen at once has not."""

CHAT = Chat(build_tokenizer())


class EchoBackend:
    """Answers every request with its last user message's text, unless told to go on for ever.

    Attributes:
        begun, given_up: set when an answer begins, and when it is cancelled.
    """

    def __init__(self, *, endless: bool = False, huge: int = 0, key: str | None = None) -> None:
        self.begun = threading.Event()
        self.given_up = threading.Event()
        self.reports: list[RewardReport] = []
        self._endless = endless
        self._huge = huge
        self._key = key

    def admit(self, caller: Caller) -> None:
        if self._key is not None and caller.key != self._key:
            raise Refusal(401, "wrong key", code="invalid_api_key")
        if caller.episode is not None and caller.episode != "known":
            raise Refusal(404, "no such episode", code="unknown_episode")

    def models(self) -> list[str]:
        return ["echo"]

    def weights(self) -> str:
        return "none"

    def report(self, caller: Caller, report: RewardReport) -> None:
        self.reports.append(report)

    async def open(self, caller: Caller, body: bytes, request: ChatRequest) -> Job:
        if request.model != "echo":
            raise Refusal(404, "no such model", code="model_not_found", param="model")
        return Job("chatcmpl-1", "echo", "none", 3, self._deltas(request))

    async def _deltas(self, request: ChatRequest | CompletionRequest) -> AsyncGenerator[Delta, None]:
        import asyncio

        self.begun.set()
        try:
            if self._endless:
                await asyncio.Event().wait()
            for index in range(request.choices):
                if self._huge:
                    for _ in range(self._huge):
                        await asyncio.sleep(0)  # As whatever waits for a model does.
                        yield Delta(index, "x" * 2**16, tokens=1)
                    continue
                spelling = Spelling(CHAT, index, stops=request.stops, logprobs=bool(request.logprobs))
                tokens = [*CHAT.encode("What is 2 + 2?"), CHAT.end_of_turn]
                spelling.take(tokens, [-0.5] * len(tokens))
                yield spelling.last("stop")
        except (asyncio.CancelledError, GeneratorExit):
            self.given_up.set()
            raise


class EchoTexts(EchoBackend):
    """Continues every prompt with the same text, and gives every text the same vector."""

    async def complete(self, request: CompletionRequest) -> Job:
        return Job("cmpl-1", "echo", "none", 3, self._deltas(request), [str(prompt) for prompt in request.prompts])

    async def embed(self, request: EmbeddingRequest) -> Vectors:
        return Vectors("echo", [[0.6, 0.8]] * len(request.texts), 2 * len(request.texts))


@contextmanager
def hosted(backend: Backend, bounds: Bounds | None = None, *, episodes: bool = False) -> Iterator[ApplicationHost]:
    """A server in front of a backend."""
    limits = bounds or Bounds()
    with ApplicationHost(lambda: build_app(backend, limits, episodes=episodes), bounds=limits) as host:
        yield host


@contextmanager
def nano_backend(path: Path | str = BASE, **settings: Any) -> Iterator[CurrentBackend]:
    """The nano model, or a run of it, on one thread."""
    source = ModelSource.of(Path(path), [("threads", 1), ("precision", "fp32")])
    backend = CurrentBackend(source, **settings)
    try:
        yield backend
    finally:
        backend.close()


def question(text: str = "What is 2 + 2?", **more: Any) -> dict[str, Any]:
    """A request of one user message."""
    return {"model": "echo", "messages": [{"role": "user", "content": text}], **more}


def post(host: ApplicationHost, body: Any, path: str = "/v1/chat/completions", /, **headers: str) -> httpx.Response:
    """Sends a request."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(host.address + path, json=body, headers=named, timeout=WAIT)


def events(response: httpx.Response) -> list[dict[str, Any]]:
    """The chunks of a stream, which must end as it should."""
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def joined(chunks: list[dict[str, Any]], index: int = 0) -> str:
    """The text of one answer of a stream."""
    told = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content") or "" for choice in told)


class Wire:
    """A plain TCP connection to a server."""

    def __init__(self, host: ApplicationHost) -> None:
        self.socket = socket.create_connection((host.host, host.port), timeout=WAIT)

    def send(self, text: str) -> None:
        self.socket.sendall(text.encode())

    def head(self, length: int | str, path: str = "/v1/chat/completions", **more: str) -> None:
        """The head of a POST whose body has `length` bytes."""
        lines = [f"POST {path} HTTP/1.1", "host: localhost", "content-type: application/json"]
        lines.append("transfer-encoding: chunked" if length == "chunked" else f"content-length: {length}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
        self.send("\r\n".join(lines) + "\r\n\r\n")

    def until_closed(self) -> bytes:
        """Everything until the other side hangs up; fails when it does not."""
        found = b""
        try:
            while part := self.socket.recv(2**16):
                found += part
        except ConnectionResetError:
            pass
        return found

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()


def error_of(response: httpx.Response) -> Mapping[str, Any]:
    """The error of a refusal, which must have OpenAI's form."""
    found = response.json()["error"]
    assert set(found) == {"message", "type", "param", "code"}
    assert isinstance(found["message"], str)
    assert found["message"]
    return found
