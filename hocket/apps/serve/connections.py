"""Connections that wait for nobody for ever: slow heads, slow readers and idle peers are hung up on.

A request whose end can be read in two ways is refused, so that no second one hides behind it.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from hocket.apps.serve.addresses import addressed
from hocket.apps.serve.bounds import Bounds
from hocket.apps.serve.refusals import Refusal

HEAD_BYTES = 2**16
"""Of a request's head, at most."""


_MALFORMED = Refusal(400, "this is no HTTP request that can be read in one way only", code="malformed_request")
_VERSION = Refusal(505, "this server speaks HTTP/1.1", code="http_version")


class _Unambiguous(h11.Connection):
    """A parser that is as strict as it can be.

    It refuses requests with both a length and a transfer encoding, or with one in HTTP/1.0 (RFC 9112, section 6.1),
    those that name a server in their first line, which need not be the one that their Host header names (section 3.2),
    Host headers that are none, and other versions than 1.0 and 1.1.

    Attributes:
        refusal: what is told of a request that cannot be read.
    """

    refusal = _MALFORMED

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request) and (reason := self._wrong(event)):
            raise h11.RemoteProtocolError(reason)
        return event

    def _wrong(self, request: h11.Request) -> str | None:
        headers = dict(request.headers)
        if request.http_version not in (b"1.0", b"1.1"):
            self.refusal = _VERSION
            return "another version of HTTP"
        if b"transfer-encoding" in headers and (b"content-length" in headers or request.http_version == b"1.0"):
            return "a Transfer-Encoding beside a Content-Length, or in HTTP/1.0"
        if not request.target.startswith(b"/") and request.target != b"*":
            return "a target that is no path"
        return "no Host" if addressed(headers.get(b"host", b"").decode("latin-1")) is None else None


def bounded(bounds: Bounds) -> type[asyncio.Protocol]:
    """uvicorn's connections, with these bounds."""

    class Connection(H11Protocol):
        """One connection.

        uvicorn itself bounds neither the time until a request's head is there, nor how long a reader may take.
        """

        _head: asyncio.TimerHandle | None = None
        _reader: asyncio.TimerHandle | None = None

        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **settings)
            self.conn = _Unambiguous(h11.SERVER, HEAD_BYTES)

        def send_400_response(self, msg: str) -> None:
            refusal = cast(_Unambiguous, self.conn).refusal
            body = msgspec.json.encode(refusal.body())
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            events = (
                h11.Response(status_code=refusal.status, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            )
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
            self.transport.close()

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(cast(asyncio.Transport, transport))
            # Whatever is left unread counts as waiting, so that the clock below sees it.
            self.transport.set_write_buffer_limits(high=0)
            self._head = self.loop.call_later(bounds.head_seconds, self._hang_up)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            between = self.cycle is None or self.cycle.response_complete
            if not between or self.conn.their_state is not h11.IDLE:
                self._head = _stop(self._head)
            elif self._head is None and not self.transport.is_closing():
                self._head = self.loop.call_later(bounds.head_seconds, self._hang_up)

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._reader is None:
                self._reader = self.loop.call_later(bounds.write_seconds, self._hang_up)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._reader = _stop(self._reader)

        def connection_lost(self, exc: Exception | None) -> None:
            self._head, self._reader = _stop(self._head), _stop(self._reader)
            super().connection_lost(exc)

        def _hang_up(self) -> None:
            # Not `close`, which would wait for what the peer does not read.
            self.transport.abort()

    return Connection


def _stop(clock: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Stops a clock; returns what to keep of it, nothing."""
    if clock is not None:
        clock.cancel()
    return None
