"""What a server can do wrong, and what is said about it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from remote_server import Said, Server

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.engine.remote_http import Endpoint, EndpointError
from hocket.engine.requests import ContextFull

KEY = Key.of(0)
ASK = {"model": "m"}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def endpoint(url: str, **more: Any) -> Endpoint:
    return Endpoint(url, **({"model": "m", "timeout": 5.0, "retries": 2, "backoff": 0.001} | more))


def always(said: Said) -> Callable[[str, Any], Said]:
    return lambda path, body: said


def failing_twice(said: Said) -> Callable[[str, Any], Said]:
    left = [said, said, Said({"fine": True})]
    return lambda path, body: left.pop(0)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_asked_again(status: int) -> None:
    with Server(failing_twice(Said({"error": "busy"}, status))).running() as server:
        assert endpoint(server.url).ask("/x", ASK, KEY) == {"fine": True}
        assert len(server.asked) == 3


def test_attempts_are_bounded_and_the_last_reason_is_told() -> None:
    with (
        Server(always(Said({"error": {"message": "out of  cheese"}}, 500))).running() as server,
        pytest.raises(EndpointError, match=r"failed 3 times: HTTP 500 out of cheese; check the server"),
    ):
        endpoint(server.url).ask("/x", ASK, KEY)
    assert len(server.asked) == 3


def test_a_pause_that_the_server_asks_for_is_made() -> None:
    with Server(failing_twice(Said(None, 429, {"Retry-After": "1"}))).running() as server:
        started = time.monotonic()
        endpoint(server.url).ask("/x", ASK, KEY)
        assert 2.0 <= time.monotonic() - started < 4.0


@pytest.mark.parametrize("said", [Said({}, wait=1.0), Said(b"x" * 100, drip=0.05)])
def test_an_attempt_takes_no_longer_than_allowed(said: Said) -> None:
    with Server(always(said)).running() as server:
        started = time.monotonic()
        with pytest.raises(EndpointError, match=r"failed once: no answer within 0.3 s"):
            endpoint(server.url, timeout=0.3, retries=0).ask("/x", ASK, KEY)
        assert time.monotonic() - started < 0.9


def test_malformed_json_is_asked_again_and_then_told() -> None:
    with Server(failing_twice(Said(b"<html>"))).running() as server:
        assert endpoint(server.url).ask("/x", ASK, KEY) == {"fine": True}
    with (
        Server(always(Said(b"<html>"))).running() as server,
        pytest.raises(EndpointError, match="the answer is not JSON: b'<html>'"),
    ):
        endpoint(server.url).ask("/x", ASK, KEY)


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Bound but not listening: connections are refused.
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(ConfigurationError, match=r"no server answers at http.*refused; asked 3 times\); start it"):
            endpoint(url).ask("/x", ASK, KEY)


def test_a_connection_that_breaks_is_tried_again() -> None:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()

        def slam() -> None:
            for _ in range(2):
                door.accept()[0].close()

        thread = threading.Thread(target=slam)
        thread.start()
        with pytest.raises(EndpointError, match="failed 2 times"):
            endpoint(f"http://127.0.0.1:{door.getsockname()[1]}/v1", retries=1).ask("/x", ASK, KEY)
        thread.join()


def test_the_key_is_sent_and_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-secret")
    with Server(always(Said({"error": {"message": "wrong key sk-secret"}}, 401))).running() as server:
        with pytest.raises(
            ConfigurationError, match=r"refuses access \(HTTP 401\); correct the key in SOME_KEY"
        ) as found:
            endpoint(server.url, key_variable="SOME_KEY").ask("/x", ASK, KEY)
        assert server.asked[0].key == "Bearer sk-secret"
        assert len(server.asked) == 1
        assert "sk-secret" not in str(found.value)
        assert "sk-secret" not in repr(endpoint(server.url, key_variable="SOME_KEY"))
        with pytest.raises(ConfigurationError, match="name its key with key_variable"):
            endpoint(server.url).ask("/x", ASK, KEY)
        assert server.asked[-1].key is None


def test_an_unknown_model_is_told_with_those_there_are() -> None:
    def reply(path: str, body: Any) -> Said:
        return Said({"data": [{"id": "small"}, {"id": "mm"}]}) if path == "/v1/models" else Said({}, 404)

    with (
        Server(reply).running() as server,
        pytest.raises(ConfigurationError, match=r"has no model 'm'; it has small, mm; did you mean 'mm'\?"),
    ):
        endpoint(server.url).ask("/x", ASK, KEY)


def test_a_wrong_address_is_told() -> None:
    with (
        Server(always(Said({}, 404))).running() as server,
        pytest.raises(ConfigurationError, match=r"has no /x .*usually ends with /v1"),
    ):
        endpoint(server.url).ask("/x", ASK, KEY)


def test_another_address_is_not_followed() -> None:
    with (
        Server(always(Said(None, 307, {"Location": "http://elsewhere/v1"}))).running() as server,
        pytest.raises(ConfigurationError, match="redirects to another address"),
    ):
        endpoint(server.url).ask("/x", ASK, KEY)


def test_a_refused_question_is_told_in_the_servers_words() -> None:
    with (
        Server(always(Said({"error": {"message": "no such setting 'seed'"}}, 400))).running() as server,
        pytest.raises(EndpointError, match=r"refuses the question \(HTTP 400\): no such setting 'seed'"),
    ):
        endpoint(server.url).ask("/x", ASK, KEY)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "complaint",
    [{"message": "too long", "code": "context_length_exceeded"}, {"message": "maximum context length is 5 tokens"}],
)
def test_a_full_context_is_told_apart(complaint: dict[str, str]) -> None:
    with (
        Server(always(Said({"error": complaint}, 400))).running() as server,
        pytest.raises(ContextFull, match="the context of model 'm' is full"),
    ):
        endpoint(server.url).ask("/x", ASK, KEY)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"url": "localhost:8000"}, "is no address; write it as http://"),
        ({"url": "http://user:pass@host/v1"}, "at host must not hold a key"),
        ({"url": "http://host/v1?key=1"}, "at host must not hold a key"),
        ({"url": "http://host/v1", "timeout": 0}, "timeout must be above 0"),
        ({"url": "http://host/v1", "key_variable": "HOCKET_NOT_SET"}, "HOCKET_NOT_SET .* is not set; export it"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence) as found:
        Endpoint(**({"model": "m"} | settings))
    assert "pass" not in str(found.value).replace("password", "")
