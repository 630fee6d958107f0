"""Tools of a server of the Model Context Protocol: `--tools "mcp:COMMAND"`.

The server is a process of one's own that is spoken to through its input and output; a run starts one in each of its
processes, at the first need, and again when it has ended. What it answers is the world's word: it is kept in the run's
journal (`hocket.tools.outside`), since a server whose answers depend on time or on earlier calls cannot be asked again.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import logging
import shlex
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ClassVar

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.waits import waiting_for

STARTING = 30.0
"""Seconds that a server has to say what tools it has."""

ANSWERING = 30.0
"""Seconds that a call may take."""

RESTING = 60.0
"""Seconds for which a server that has ended and could not be started again is not tried anew."""


@dataclass(frozen=True)
class McpTool:
    """A tool that a server has."""

    name: str
    schema: Mapping[str, Any]
    server: Server
    outside: ClassVar[bool] = True

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        """What the server answers, in words; `error: ...` for all that goes wrong."""
        try:
            return await asyncio.wait_for(self.server.call(self.name, arguments), ANSWERING)
        except TimeoutError:
            return f"error: {self.name} gave no answer within {ANSWERING:g} s"
        except HocketError as error:
            return f"error: {error}"


class Server:
    """A tool server and the thread that speaks with it.

    Args:
        command: as one types it.

    Raises:
        ConfigurationError: when it cannot be started, or does not say what tools it has.
    """

    def __init__(self, command: str) -> None:
        self.command = command
        self._errors = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._lock = threading.Lock()
        self._session: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._ready: Future[None] | None = None
        self._refused, self._again = "", 0.0
        self.listed: Sequence[Any] = ()
        try:
            with waiting_for(f"the tool server {command}"):
                self._begin().result(STARTING + 5)
        except Exception:
            self.close()
            why = self._refused or f"the tool server {command!r} did not start"
            raise ConfigurationError(f"{why}; run it by hand to see what is wrong") from None
        if not self.listed:
            self.close()
            raise ConfigurationError(f"the tool server {command!r} has no tools; see what it is meant to serve")

    def tools(self) -> tuple[McpTool, ...]:
        """What it has, in its order."""
        return tuple(
            McpTool(
                one.name,
                {
                    "type": "function",
                    "function": {
                        "name": one.name,
                        "description": one.description or "",
                        "parameters": one.input_schema,
                    },
                },
                self,
            )
            for one in self.listed
        )

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The answer of a tool. A server that has ended is started again first.

        Raises:
            HocketError: when it cannot be.
        """
        with self._lock:
            if self._session is None and (self._ready is None or self._ready.done()):
                if time.monotonic() < self._again:
                    raise HocketError(self._refused)
                self._begin()
            ready = self._ready
        assert ready is not None
        try:
            await asyncio.shield(asyncio.wrap_future(ready))
        except Exception:
            raise HocketError(self._refused) from None
        session, loop = self._session, self._loop
        if session is None or loop is None:
            return _ended(name)
        work = self._answer(session, name, dict(arguments))
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
        except RuntimeError:  # Its thread has ended meanwhile.
            work.close()
            return _ended(name)

    def close(self) -> None:
        """Ends the server."""
        loop, ending = self._loop, self._ending
        if loop is not None and ending is not None:
            with contextlib.suppress(RuntimeError):  # It has ended already.
                loop.call_soon_threadsafe(ending.set)

    async def _answer(self, session: Any, name: str, arguments: dict[str, Any]) -> str:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        try:
            found = await session.call_tool(name, arguments)
        except (Exception, asyncio.CancelledError) as error:  # Cancelled where its thread ends, or nobody waits.
            if isinstance(error, MCPError) and error.error.code != CONNECTION_CLOSED:
                return f"error: {error}"
            if isinstance(error, asyncio.CancelledError):
                return _ended(name)
            with self._lock:
                if session is self._session:
                    self._session = None
                    self.close()
            return _ended(name)
        text = "\n".join(part.text for part in found.content if part.type == "text")
        return f"error: {text}" if found.is_error else text

    # ------------------------------------------------------------ its thread

    def _begin(self) -> Future[None]:
        """Starts the server, and says when it has told what tools it has."""
        self._ready = Future()
        threading.Thread(target=self._run, args=(self._ready,), name="hocket-mcp", daemon=True).start()
        return self._ready

    def _trouble(self, error: BaseException) -> str:
        """What went wrong at its start, in words."""
        if isinstance(error, FileNotFoundError):
            return "is no program that can be found"
        if isinstance(error, TimeoutError):
            return f"did not say within {STARTING:g} s what tools it has"
        self._errors.seek(0)
        said = [line for line in self._errors.read().splitlines() if line.strip()]
        last = f' and said last "{said[-1].strip()[:200]}"' if said else ""
        return f"ended before it said what tools it has{last}"

    def _run(self, ready: Future[None]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:
            with self._lock:
                if ready is self._ready:  # No other has been started since.
                    self._session = None
            if not ready.done():
                self._refused = f"the tool server {self.command!r} {self._trouble(_innermost(error))}"
                self._again = time.monotonic() + RESTING
                ready.set_exception(HocketError(self._refused))

    async def _serve(self, ready: Future[None]) -> None:
        """Speaks with the server until it is to end, or has."""
        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client

        program, *arguments = shlex.split(self.command)
        parameters = StdioServerParameters(command=program, args=arguments)
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        async with stdio_client(parameters, errlog=self._errors) as streams, ClientSession(*streams) as session:
            async with asyncio.timeout(STARTING):
                await session.initialize()
                self.listed = (await session.list_tools()).tools
            self._session = session
            ready.set_result(None)
            await self._ending.wait()


def _ended(name: str) -> str:
    return f"error: the server of {name} has ended"


def _innermost(error: BaseException) -> BaseException:
    """What a group of errors is about."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@functools.lru_cache(maxsize=16)
def server_of(command: str) -> Server:
    """The server of a command, one for this process.

    Raises:
        ConfigurationError: when the package is missing, or the server does not start.
    """
    if not command.strip():
        raise ConfigurationError("mcp: names no tool server; write mcp:COMMAND")
    try:
        import mcp  # noqa: F401
    except ImportError:
        raise ConfigurationError("tool servers need the package mcp: pip install 'hocket[mcp]'") from None
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # What a server says amiss is told in a sentence.
    server = Server(command)
    atexit.register(server.close)
    return server
