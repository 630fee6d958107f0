"""The HTTP server, in a thread of its own: it goes on reading and writing while a model computes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self

from hocket.apps.serve.bounds import Bounds
from hocket.core.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.applications import Starlette

_GRACE = 2
"""Seconds that open connections have when the server closes."""


class ApplicationHost:
    """Serves an application from when it is made until `close`.

    Attributes:
        host, port: where it listens. loop: the thread's event loop, which also runs other work given to it.

    Args:
        make: gives the application.
        host: the interface. port: 0 takes a free one.
        bounds: of connections.

    Raises:
        ConfigurationError: when starlette and uvicorn are not installed, or the address cannot be had.
    """

    def __init__(
        self, make: Callable[[], Starlette], *, host: str = "127.0.0.1", port: int = 0, bounds: Bounds | None = None
    ) -> None:
        require()
        self._bounds = bounds or Bounds()
        self._socket = _listening(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._server: Any = None
        self._thread = threading.Thread(target=self._run, args=(make, started), name="hocket-serve", daemon=True)
        self._thread.start()
        self.loop = started.result()

    @property
    def address(self) -> str:
        """`http://HOST:PORT`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def close(self) -> None:
        """Stops listening, lets open requests end for a moment, and ends the thread."""
        if self._server is not None:
            self._server.should_exit = True
        if threading.current_thread() is not self._thread:
            self._thread.join(_GRACE + 5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, make: Callable[[], Starlette], started: Future[asyncio.AbstractEventLoop]) -> None:
        try:
            asyncio.run(self._serve(make, started))
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
                return
            raise

    async def _serve(self, make: Callable[[], Starlette], started: Future[asyncio.AbstractEventLoop]) -> None:
        import uvicorn

        from hocket.apps.serve.connections import HEAD_BYTES, bounded

        bounds = self._bounds
        config = uvicorn.Config(
            make(),
            http=bounded(bounds),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            limit_concurrency=bounds.connections,
            backlog=bounds.connections,
            timeout_keep_alive=max(1, round(bounds.idle_seconds)),
            timeout_graceful_shutdown=_GRACE,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        self._server = uvicorn.Server(config)
        self._socket.listen(bounds.connections)
        # From here on connections are taken up, and answered in a moment.
        started.set_result(asyncio.get_running_loop())
        with contextlib.suppress(asyncio.CancelledError):
            await self._server.serve(sockets=[self._socket])


def require() -> None:
    """Raises `ConfigurationError` unless the extra is installed."""
    try:
        import starlette
        import uvicorn
    except ImportError as error:
        raise ConfigurationError("serving needs starlette and uvicorn: pip install 'hocket[serve]'") from error
    del starlette, uvicorn


def _listening(host: str, port: int) -> socket.socket:
    """A socket bound to an address."""
    if not 0 <= port < 2**16:
        raise ConfigurationError(f"--port {port}: ports are numbers from 0 to {2**16 - 1}")
    try:
        place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise ConfigurationError(f"--host {host}: {error.strerror or error}") from error
    listener = socket.socket(place[0], socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place[4])
    except OSError as error:
        listener.close()
        reason = error.strerror or error
        raise ConfigurationError(f"cannot listen on {host}:{port}: {reason}; choose another --port") from error
    return listener
