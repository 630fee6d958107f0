"""Requests to an OpenAI-compatible server: time limits, bounded retries, and errors as sentences."""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hocket.core.errors import ConfigurationError, HocketError, nearest
from hocket.core.keys import Key
from hocket.core.notices import say
from hocket.core.waits import waiting_for
from hocket.engine.remote_fields import LONGEST, RefusedFields, doubtful_fields, refused_fields, without
from hocket.engine.requests import ContextFull

T = TypeVar("T")

_AGAIN = {408, 425, 429, 500, 502, 503, 504}
"""HTTP states after which the same request may succeed."""

_LONGEST_PAUSE = 30.0
_SHOWN = 300
_FULL = re.compile(
    r"context[ _](?:length|window|size)|(?:prompt|input) is too long|maximum prompt length|too many tokens|"
    r"input token count|must be <= \d+\. given",
    re.IGNORECASE,
)
"""Error texts of servers for a request that is longer than the model's context."""


class EndpointError(HocketError):
    """A server did not answer, or gave invalid answers, at every attempt."""


class Unfinished(EndpointError):
    """A truncated answer; another attempt may give a complete one."""


class ServerAbsent(ConfigurationError):
    """No server listens at an address."""


class RequestsFailed(EndpointError):
    """A server gave no valid answer at any attempt."""


class _NotYet(Exception):
    """An attempt failed temporarily. `absent`: no server answers. `pause`: seconds that the server asks for."""

    def __init__(self, reason: str, *, absent: bool = False, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.absent = absent
        self.pause = pause


class _Unknown(Exception):
    """The server refuses some fields of the request. `fields`: those that it names, which may be none."""

    def __init__(self, fields: frozenset[str], refusal: EndpointError) -> None:
        super().__init__(str(refusal))
        self.fields = fields
        self.refusal = refusal


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an error, since following it could send the key to another server."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


@dataclass(frozen=True)
class Endpoint:
    """A model behind an OpenAI-compatible server.

    Attributes:
        url: the address up to and with `/v1`.
        model: its name on the server.
        key_variable: the environment variable that holds the API key; None sends no key.
        timeout: the longest time of one attempt, in seconds.
        retries: further attempts after temporary failures.
        backoff: seconds before the second attempt, doubled before each further one, up to 30; a server's
            `Retry-After` is respected within the same bound.
        concurrency: the number of simultaneous requests.
        exact: whether the run learns from the samples. If so, a server that refuses a sampling field is an error;
            else further requests omit that field, and a message says so once.

    Raises:
        ConfigurationError: when a setting is out of range, or the environment variable is not set.
    """

    url: str
    model: str
    key_variable: str | None = None
    timeout: float = 120.0
    retries: int = 4
    backoff: float = 0.5
    concurrency: int = 32
    exact: bool = False
    _refused: RefusedFields = field(default_factory=RefusedFields, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"endpoint {self.url!r} is no address; write it as http://HOST:PORT/v1")
        if parts.username or parts.password or parts.query:
            raise ConfigurationError(
                f"the endpoint at {parts.hostname} must not hold a key or a query: it would be stored with the run; "
                "put the key into an environment variable and name that (key_variable)"
            )
        if self.timeout <= 0 or self.backoff < 0 or self.retries < 0 or self.concurrency < 1:
            raise ConfigurationError(
                f"endpoint {self.url}: timeout must be above 0, backoff and retries at least 0, concurrency at least 1"
            )
        if self.key_variable is not None and not os.environ.get(self.key_variable):
            raise ConfigurationError(
                f"the environment variable {self.key_variable} for the key of {self.url} is not set; export it"
            )

    def ask(self, path: str, body: Mapping[str, Any] | None, key: Key) -> Any:
        """The JSON answer to a request; see `read`."""
        return self.read(path, body, key, lambda answer: answer)

    def read(self, path: str, body: Mapping[str, Any] | None, key: Key, understand: Callable[[Any], T]) -> T:
        """The JSON answer to a request as `understand` reads it; a POST if there is a body, else a GET.

        Blocks. `key` spreads the pauses between attempts, so that many requests are not repeated at the same moment.

        Args:
            understand: reads an answer; raises `Unfinished` for an answer that must be requested again.

        Raises:
            ConfigurationError: when no server answers, when key, address or model are wrong, or when an `exact` server
                refuses a sampling field.
            ContextFull: when the request is longer than the model's context.
            EndpointError: when all attempts failed, or the server refuses the request.
        """
        with waiting_for(f"model {self.model} at {self.url}" if self.model else self.url):
            return self._read(path, body, key, understand)

    def _read(self, path: str, body: Mapping[str, Any] | None, key: Key, understand: Callable[[Any], T]) -> T:
        attempts = self.retries + 1
        for attempt in range(attempts):
            try:
                return understand(self._taken(path, body))
            except Unfinished as broken:
                last = _NotYet(str(broken))
            except _NotYet as failed:
                last = failed
            if attempt < self.retries:
                spread = 1 + float(key.derive("retry", attempt).numpy().random()) / 2
                time.sleep(min(max(self.backoff * 2**attempt * spread, last.pause), _LONGEST_PAUSE))
        often = "once" if attempts == 1 else f"{attempts} times"
        if last.absent:
            raise ServerAbsent(
                f"no server answers at {self.url} ({last}; asked {often}); start it, or correct the endpoint"
            )
        raise RequestsFailed(f"{self.url} failed {often}: {last}; check the server, or raise timeout or retries")

    # ------------------------------------------------------------ one attempt

    def _taken(self, path: str, body: Mapping[str, Any] | None) -> Any:
        """The answer to a request without the fields that the server refuses."""
        if body is None:
            return self._once(path, None)
        tried: frozenset[str] = frozenset()
        while True:
            left_out = self._refused.fields | tried
            try:
                answer = self._once(path, without(body, left_out))
            except _Unknown as unknown:
                fields = unknown.fields - left_out
                if not fields and not self.exact:
                    fields = doubtful_fields(body, left_out)
                if not fields:
                    raise unknown.refusal from None
                if self.exact and fields - {LONGEST}:
                    raise ConfigurationError(
                        f"{unknown.refusal}; without {', '.join(sorted(fields))} it would draw by settings of its own, "
                        "and what it draws is learnt from: use a server that takes every setting of the sampling"
                    ) from None
                tried |= fields
                continue
            new = self._refused.add(tried) - {LONGEST}
            if new:
                names = ", ".join(sorted(new))
                say(f"{self.url} refuses {names}: requests omit it from now on, and the server's own setting holds")
            return answer

    def _once(self, path: str, body: Mapping[str, Any] | None) -> Any:
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(self._request(path, body), timeout=self.timeout) as answer:
                data = _read(answer, time.monotonic() + self.timeout)
        except urllib.error.HTTPError as error:
            raise self._refusal(path, error, body or {}) from error
        except TimeoutError as error:
            raise _NotYet(f"no answer within {self.timeout:g} s") from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise _NotYet(f"no answer within {self.timeout:g} s") from error
            raise _NotYet(_reason(error.reason), absent=_absent(error.reason)) from error
        except (OSError, http.client.HTTPException) as error:
            raise _NotYet(f"the connection broke ({type(error).__name__})") from error
        try:
            return json.loads(data) if data else None
        except ValueError as error:
            raise _NotYet(f"the answer is not JSON: {data[:60]!r}") from error

    def _request(self, path: str, body: Mapping[str, Any] | None) -> urllib.request.Request:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.key_variable is not None:
            headers["Authorization"] = f"Bearer {os.environ.get(self.key_variable, '')}"
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.Request(self.url.rstrip("/") + path, data=data, headers=headers)

    def _refusal(self, path: str, error: urllib.error.HTTPError, body: Mapping[str, Any]) -> Exception:
        """The error that an HTTP status means."""
        with error:
            words, code, document = _complaint(error)
        if error.code in _AGAIN:
            pause = error.headers.get("Retry-After", "")
            return _NotYet(f"HTTP {error.code} {words}".strip(), pause=float(pause) if pause.isdigit() else 0.0)
        if error.code in (401, 403):
            # Without the server's text, because some repeat part of the key.
            fix = f"correct the key in {self.key_variable}" if self.key_variable else "name its key with key_variable"
            return ConfigurationError(f"{self.url} refuses access (HTTP {error.code}); {fix}")
        if error.code == 404:
            return self._missing(path)
        if 300 <= error.code < 400:
            return ConfigurationError(
                f"{self.url} redirects to another address ({error.headers.get('Location')}); give that as the endpoint"
            )
        if code == "context_length_exceeded" or _FULL.search(words):
            return ContextFull(f"the context of model {self.model!r} is full: {words}")
        refusal = EndpointError(f"{self.url} refuses the question (HTTP {error.code}): {words or 'without a reason'}")
        return _Unknown(refused_fields(document, words, body), refusal) if error.code in (400, 422) else refusal

    def _missing(self, path: str) -> Exception:
        """The reason of a 404: an unknown model or a wrong address."""
        if path != "/models":
            try:
                listed = self._once("/models", None)
                names = [str(model["id"]) for model in listed["data"]]
            except (HocketError, _NotYet, KeyError, TypeError):
                names = []
            if names and self.model not in names:
                hint = nearest(self.model, names).removeprefix("; ")
                return ConfigurationError(f"{self.url} has no model {self.model!r}; it has {', '.join(names)}; {hint}")
        return ConfigurationError(f"{self.url} has no {path} (HTTP 404); an address usually ends with /v1")


def only_model(url: str, key_variable: str | None) -> str:
    """The name of the only model of a server.

    Raises:
        ConfigurationError: when it has several, or does not list them.
    """
    listed = Endpoint(url, "", key_variable=key_variable, retries=2).ask("/models", None, Key.of(0))
    try:
        names = [str(model["id"]) for model in listed["data"]]
    except (KeyError, TypeError):
        names = []
    if len(names) != 1:
        raise ConfigurationError(
            f"{url} has {len(names) or 'an unknown number of'} models; name one, as in {url}#MODEL"
        )
    return names[0]


def _read(answer: http.client.HTTPResponse, end: float) -> bytes:
    """The complete answer within the time limit; a socket's own limit holds only for each piece."""
    pieces = []
    while piece := answer.read1(65536):
        pieces.append(piece)
        if time.monotonic() > end:
            raise TimeoutError
    return b"".join(pieces)


def _complaint(error: urllib.error.HTTPError) -> tuple[str, str, Any]:
    """The server's text of an error on one line, its code, and the complete error as data."""
    try:
        data = error.read(1 << 16)
    except (OSError, http.client.HTTPException):
        return "", "", None
    try:
        content = json.loads(data)
    except ValueError:
        return " ".join(data.decode("utf-8", "replace").split())[:_SHOWN], "", None
    content = content[0] if isinstance(content, list) and len(content) == 1 else content
    inner = content.get("error", content) if isinstance(content, Mapping) else content
    if not isinstance(inner, Mapping):
        return str(inner)[:_SHOWN], "", content
    words = next((inner[name] for name in ("message", "detail", "error") if inner.get(name)), "")
    return " ".join(str(words).split())[:_SHOWN], str(inner.get("code", "")), inner


def _absent(error: object) -> bool:
    """Whether an error means that there is no server, rather than that it closed the connection."""
    if isinstance(error, (ConnectionRefusedError, socket.gaierror, ssl.SSLCertVerificationError)):
        return True
    return isinstance(error, OSError) and error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH)


def _reason(error: object) -> str:
    return str(getattr(error, "strerror", None) or error)
