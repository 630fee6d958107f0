"""A small OpenAI-compatible server on this machine, whose answers a test decides."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Said:
    """An HTTP answer: a status, a JSON value or raw bytes, headers, and seconds before it comes (each byte: `drip`)."""

    value: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0
    drip: float = 0.0


@dataclass
class Asked:
    """A request as it came in."""

    path: str
    body: Any
    key: str | None


class Server:
    """Answers `reply(path, body)`; remembers what was asked, and how many requests were under way at most."""

    def __init__(self, reply: Callable[[str, Any], Said]) -> None:
        self.reply = reply
        self.asked: list[Asked] = []
        self.most = 0
        self.under_way = 0
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"owner": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @contextmanager
    def running(self) -> Iterator[Server]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    owner: Server

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        owner = self.owner
        with owner.lock:
            owner.asked.append(Asked(self.path, body, self.headers.get("Authorization")))
            owner.under_way += 1
            owner.most = max(owner.most, owner.under_way)
        try:
            said = owner.reply(self.path, body)
            time.sleep(said.wait)
        finally:
            with owner.lock:
                owner.under_way -= 1
        with contextlib.suppress(OSError):  # The client may have gone.
            self._send(said)

    def _send(self, said: Said) -> None:
        data = said.value if isinstance(said.value, bytes) else json.dumps(said.value).encode()
        self.send_response(said.status)
        for name, value in said.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if not said.drip:
            self.wfile.write(data)
            return
        for number in range(len(data)):
            self.wfile.write(data[number : number + 1])
            self.wfile.flush()
            time.sleep(said.drip)

    def log_message(self, *arguments: Any) -> None:
        pass


def chat_answer(text: str | None, finish: str = "stop", **more: Any) -> Said:
    """What `/chat/completions` gives."""
    return Said({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": finish, **more}]})


def token_answer(text: str, tokens: Any, logp: Any, finish: str = "stop") -> Said:
    """What vLLM's `/completions` gives."""
    logprobs = None if logp is None else {"token_logprobs": logp}
    return Said({"choices": [{"text": text, "token_ids": tokens, "logprobs": logprobs, "finish_reason": finish}]})
