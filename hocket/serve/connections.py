"""Connections that wait for nobody for ever: slow heads, slow readers and idle peers are hung up on."""

from __future__ import annotations

import asyncio
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from hocket.serve.bounds import Bounds


def bounded(bounds: Bounds) -> type[asyncio.Protocol]:
    """uvicorn's connections, with these bounds."""

    class Connection(H11Protocol):
        """One connection.

        uvicorn itself bounds neither the time until a request's head is there, nor how long a reader may take.
        """

        _head: asyncio.TimerHandle | None = None
        _reader: asyncio.TimerHandle | None = None

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
