"""Malformed, oversized, slow and abandoned requests, over real sockets."""

from __future__ import annotations

import functools
import json
import threading

import httpx
import pytest
from serve_cases import WAIT, EchoBackend, Wire, error_of, events, hosted, post, question

from hocket.apps.serve.addresses import is_loopback
from hocket.apps.serve.app import build_app
from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.host import ApplicationHost
from hocket.core.errors import ConfigurationError


def test_body_is_refused_by_its_declared_length_before_it_is_read():
    with hosted(EchoBackend(), Bounds(body_bytes=100)) as host, Wire(host) as wire:
        wire.head(101)  # And not a byte of it.
        assert b"413" in wire.until_closed().split(b"\r\n")[0]


def test_body_without_a_length_is_refused_when_it_grows_too_large():
    with hosted(EchoBackend(), Bounds(body_bytes=100)) as host, Wire(host) as wire:
        wire.head("chunked")
        wire.send("80\r\n" + "x" * 128 + "\r\n")
        assert b"413" in wire.until_closed().split(b"\r\n")[0]


BODY = json.dumps(question())
SMUGGLED = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    "lengths",
    [
        f"content-length: {len(BODY)}\r\ntransfer-encoding: chunked\r\n",
        f"transfer-encoding: chunked\r\ncontent-length: {len(BODY)}\r\n",
        "content-length: -1\r\n",
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 6\r\n",
        "transfer-encoding: gzip\r\n",
    ],
)
def test_requests_whose_end_is_unclear_are_refused_and_nothing_behind_them_is_answered(lengths: str):
    backend = EchoBackend()
    with hosted(backend) as host, Wire(host) as wire:
        wire.send(f"{SMUGGLED}{lengths}\r\n0\r\n\r\n{SMUGGLED}content-length: {len(BODY)}\r\n\r\n{BODY}")
        head, _, body = wire.until_closed().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"application/json" in head
    assert json.loads(body)["error"]["code"] == "malformed_request"


def test_a_body_of_the_largest_size_is_read():
    body = json.dumps(question()).encode()
    with hosted(EchoBackend(), Bounds(body_bytes=len(body))) as host:
        kind = {"content-type": "application/json"}
        address = f"{host.address}/v1/chat/completions"
        assert httpx.post(address, content=body, headers=kind).status_code == 200
        assert httpx.post(address, content=body + b" ", headers=kind).status_code == 413


def test_slow_body_is_refused():
    with hosted(EchoBackend(), Bounds(body_seconds=0.1)) as host, Wire(host) as wire:
        wire.head(100)
        wire.send("{")
        said = wire.until_closed()
        assert b"408" in said.split(b"\r\n")[0]
        assert json.loads(said.split(b"\r\n\r\n", 1)[1])["error"]["code"] == "slow_body"


def test_slow_head_is_hung_up_on():
    with hosted(EchoBackend(), Bounds(head_seconds=0.1)) as host, Wire(host) as wire:
        wire.send("POST /v1/chat/completions HTTP/1.1\r\nhost: localh")
        assert wire.until_closed() == b""


def test_slow_second_head_is_hung_up_on():
    with hosted(EchoBackend(), Bounds(head_seconds=0.2)) as host, Wire(host) as wire:
        wire.send("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert wire.socket.recv(2**16).startswith(b"HTTP/1.1 200")
        wire.send("GET /hea")
        assert wire.until_closed().count(b"200") == 0


def test_endless_head_is_refused():
    with hosted(EchoBackend()) as host, Wire(host) as wire:
        wire.send("GET /health HTTP/1.1\r\nx: " + "y" * 2**17)
        assert b"400" in wire.until_closed()[:20]


def test_reader_that_does_not_read_is_hung_up_on_and_the_work_given_up():
    backend = EchoBackend(huge=10_000)  # Far more than sockets hold.
    with hosted(backend, Bounds(write_seconds=0.2)) as host, Wire(host) as wire:
        body = json.dumps(question(stream=True))
        wire.head(len(body))
        wire.send(body)
        assert backend.given_up.wait(WAIT)


@pytest.mark.parametrize("stream", [False, True])
def test_work_is_given_up_when_the_client_leaves(stream: bool):
    backend = EchoBackend(endless=True)
    with hosted(backend) as host:
        with Wire(host) as wire:
            body = json.dumps(question(stream=stream))
            wire.head(len(body))
            wire.send(body)
            assert backend.begun.wait(WAIT)
            assert not backend.given_up.is_set()
        assert backend.given_up.wait(WAIT)


def test_work_is_bounded_in_time():
    with hosted(EchoBackend(endless=True), Bounds(work_seconds=0.1)) as host:
        refused = post(host, question())
        assert refused.status_code == 504
        assert error_of(refused)["code"] == "timeout"


def test_stream_is_bounded_in_time_and_says_so():
    backend = EchoBackend(endless=True)
    with hosted(backend, Bounds(work_seconds=0.1)) as host:
        told = post(host, question(stream=True)).text
        assert '"timeout"' in told
        assert "[DONE]" not in told
        assert backend.given_up.wait(WAIT)


def test_no_more_requests_than_allowed_are_worked_on():
    backend = EchoBackend(endless=True)
    with hosted(backend, Bounds(requests=1)) as host:
        first = threading.Thread(target=lambda: _broken(host), daemon=True)
        first.start()
        assert backend.begun.wait(WAIT)
        refused = post(host, question())
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert error_of(refused)["type"] == "rate_limit_error"


def _broken(host: ApplicationHost) -> None:
    try:
        post(host, question())
    except httpx.HTTPError:
        pass  # The server closes while it waits.


def test_a_finished_request_makes_room():
    with hosted(EchoBackend(), Bounds(requests=1)) as host:
        for stream in (False, True, False):
            assert post(host, question(stream=stream)).status_code == 200


def test_conversation_of_too_many_messages():
    with hosted(EchoBackend(), Bounds(messages=2)) as host:
        refused = post(host, question() | {"messages": [{"role": "user", "content": "a"}] * 3})
        assert refused.status_code == 400
        assert error_of(refused)["param"] == "messages"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"{", None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        (b"null", None),
        (b"[]", None),
        (b'{"model": "echo"}', None),
        (b'{"model": "echo", "messages": []}', "messages"),
        (b'{"model": "echo", "messages": [{"role": "wizard", "content": "a"}]}', "messages[0].role"),
        (b'{"model": "echo", "messages": [{"role": "user"}]}', "messages[0]"),
        (b'{"model": "echo", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', None),
        (b'{"model": "echo", "messages": [{"role": "user", "content": "a"}], "temperature": 3}', "temperature"),
        (b'{"model": "echo", "messages": [{"role": "user", "content": "a"}], "temperature": NaN}', None),
        (b'{"model": "echo", "messages": [{"role": "user", "content": "a"}], "n": 0}', "n"),
        (b'{"model": "echo", "messages": [{"role": "user", "content": "a"}], "n": 1000000}', "n"),
        (b'{"model": "echo", "messages": [{"role": "user", "content": "a"}], "max_tokens": -1}', "max_tokens"),
        (b'{"model": "echo", "messages": [{"role": "user", "content": "a"}], "stop": ["a","b","c","d","e"]}', "stop"),
        (b'{"model": "echo", "messages": [{"role": "user", "content": "a"}], "top_logprobs": 21}', "top_logprobs"),
        (b'{"model": "echo", "messages": [{"role": "user", "content": "a"}], "logit_bias": {"1": 5}}', "logit_bias"),
    ],
)
def test_malformed_bodies_are_refused_and_the_place_is_named(body: bytes, param: str | None):
    with hosted(EchoBackend()) as host:
        kind = {"content-type": "application/json"}
        refused = httpx.post(f"{host.address}/v1/chat/completions", content=body, headers=kind)
        assert refused.status_code == 400
        found = error_of(refused)
        assert found["type"] == "invalid_request_error"
        if param is not None:
            assert (found["param"] or "").startswith(param)


def test_other_types_of_content_are_refused():
    # A page of the web may send text/plain anywhere without asking.
    with hosted(EchoBackend()) as host:
        body = json.dumps(question())
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            address = f"{host.address}/v1/chat/completions"
            assert httpx.post(address, content=body, headers={"content-type": kind}).status_code == 415


def test_unknown_addresses_and_methods_are_told_in_the_same_form():
    with hosted(EchoBackend()) as host:
        assert error_of(httpx.get(f"{host.address}/v2"))["code"] == "not_found"
        refused = httpx.get(f"{host.address}/v1/chat/completions")
        assert refused.status_code == 405
        assert error_of(refused)["code"] == "not_allowed"
        assert refused.headers["allow"] == "POST"


def test_key_is_required_in_every_endpoint_but_health():
    with hosted(EchoBackend(key="secret")) as host:
        assert httpx.get(f"{host.address}/health").status_code == 200
        for path in ("/v1/models", "/v1/models/echo"):
            assert httpx.get(host.address + path).status_code == 401
            assert httpx.get(host.address + path, headers={"authorization": "Bearer no"}).status_code == 401
            assert httpx.get(host.address + path, headers={"authorization": "Bearer secret"}).status_code == 200
        assert post(host, question()).status_code == 401
        assert post(host, question(), authorization="Bearer secret").status_code == 200


def test_an_answer_and_a_stream():
    with hosted(EchoBackend()) as host:
        whole = post(host, question(n=2, logprobs=True)).json()
        assert [choice["message"]["content"] for choice in whole["choices"]] == ["What is 2 + 2?"] * 2
        entries = whole["choices"][0]["logprobs"]["content"]
        assert "".join(entry["token"] for entry in entries) == "What is 2 + 2?"
        chunks = events(post(host, question(stream=True, stream_options={"include_usage": True})))
        assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
        assert chunks[-1]["choices"] == []
        assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"] / 2


def test_a_port_that_is_taken_and_an_address_that_is_not_here():
    with hosted(EchoBackend()) as host, pytest.raises(ConfigurationError, match="choose another --port"):
        ApplicationHost(lambda: None, port=host.port)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigurationError, match="--host nowhere"):
        ApplicationHost(lambda: None, host="nowhere.invalid")  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.3.2.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_what_counts_as_this_machine(host: str, local: bool):
    assert is_loopback(host) is local


def test_bounds_must_be_positive():
    with pytest.raises(ConfigurationError, match="tokens must be above 0"):
        Bounds(tokens=0)


REST = "\r\nhost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET /health HTTP/9.9" + REST, 505),
        ("GET /health HTTP/2.0" + REST, 505),
        ("GET /health HTTP/0.9" + REST, 505),
        ("GET /health HTTP/1.2" + REST, 505),
        ("GET /health HTTP/1.10" + REST, 400),
        ("GET /health http/1.1" + REST, 400),
        ("GET /health" + REST, 400),
        ("GET  /health HTTP/1.1" + REST, 400),
        ("GET /hea lth HTTP/1.1" + REST, 400),
        ("G@T /health HTTP/1.1" + REST, 400),
        ("GET http://localhost/health HTTP/1.1" + REST, 400),
        ("GET http://evil.example/health HTTP/1.1" + REST, 400),
        ("GET localhost:80 HTTP/1.1" + REST, 400),
        ("GET /health HTTP/1.1\r\n\r\n", 400),
        ("GET /health HTTP/1.0\r\n\r\n", 400),
        ("GET /health HTTP/1.1\r\nhost: evil.example" + REST, 400),
        ("GET /health HTTP/1.1\r\nhost: localhost" + REST, 400),
        ("GET /health HTTP/1.1\r\nhost : localhost\r\n\r\n", 400),
        ("POST /health HTTP/1.0\r\ntransfer-encoding: chunked" + REST + "0\r\n\r\n", 400),
        ("GET /health HTTP/1.1" + REST, 200),
        ("GET /health HTTP/1.0" + REST, 200),
    ],
)
def test_only_one_way_of_asking_is_understood(request_: str, status: int):
    with hosted(EchoBackend()) as host, Wire(host) as wire:
        wire.send(request_)
        head = wire.socket.recv(2**16)
        assert head.startswith(b"HTTP/1.1 %d " % status)
        if status != 200:
            wire.until_closed()  # It hangs up.


LOCAL = ["localhost", "LocalHost", "localhost:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000"]
FOREIGN = ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost.", "2130706433", "127.1"]
NONE = [
    *("evil@localhost", "localhost@evil.example", "localhost/evil", "localhost:port", "localhost:80:80", "::1"),
    *(
        "localhost:99999",
        "localhost, evil.example",
        "localhost evil",
        "[::1",
        "[::1]x",
        "localhost:",
        "",
        "local\xa0host",
    ),
]


@pytest.mark.parametrize(
    ("name", "status"),
    [*((one, 200) for one in LOCAL), *((one, 403) for one in FOREIGN), *((one, 400) for one in NONE)],
)
@pytest.mark.parametrize("path", ["/health", "/openapi.json", "/v1/models"])
def test_who_is_asked_is_read_strictly(name: str, status: int, path: str):
    bounds = Bounds()
    app = functools.partial(build_app, EchoBackend(), bounds, local_only=True)
    with ApplicationHost(app, bounds=bounds) as host, Wire(host) as wire:
        wire.socket.sendall(f"GET {path} HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n\r\n".encode("latin-1"))
        assert wire.until_closed().startswith(b"HTTP/1.1 %d " % status)
