"""Tools of a server of the Model Context Protocol: `--tools "mcp:COMMAND"`.

The server is a process of one's own that is spoken to through its input and output; a run starts one in each of its
processes, at the first need, and again when it has ended. What it answers is the world's word: it is kept in the run's
journal (`hocket.agents.tools.outside_answers`), since a server whose answers depend on time or on earlier calls cannot
be asked again.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import contextlib
import functools
import json
import logging
import shlex
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.media import MEDIA, PicturedAnswer
from hocket.core.pictures import check_picture
from hocket.core.waits import waiting_for

STARTING = 30.0
"""Seconds that a server has to say what tools it has."""

ANSWERING = 30.0
"""Seconds that a call may take."""

MOST = 1000
"""Tools that a server may have; a list that goes on is refused."""

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
        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # What a server does wrong is reported in a sentence.
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
        """What it had when it was first asked, in its order."""
        return tuple(
            McpTool(
                tool.name,
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description or "",
                        "parameters": _of_an_object(tool.input_schema),
                    },
                },
                self,
            )
            for tool in self.listed
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
        import anyio
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        try:
            return answer_of(name, await session.call_tool(name, arguments))
        except asyncio.CancelledError:  # Where its thread ends, or nobody waits.
            return _ended(name)
        except MCPError as error:
            if error.error.code != CONNECTION_CLOSED:
                return f"error: {error}"
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream):
            pass
        except Exception as error:  # An answer that the protocol, or the tool's own schema, does not have.
            return f"error: {name} gave an answer of the wrong form: {_line(error)}"
        with self._lock:
            if session is self._session:
                self._session = None
                self.close()
        return _ended(name)

    # ------------------------------------------------------------ its thread

    def _begin(self) -> Future[None]:
        """Starts the server; the future is done when its tools are listed."""
        self._ready = Future()
        threading.Thread(target=self._run, args=(self._ready,), name="hocket-mcp", daemon=True).start()
        return self._ready

    def _trouble(self, error: BaseException) -> str:
        """What went wrong at its start, in words."""
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED
        from pydantic import ValidationError

        match error:
            case FileNotFoundError():
                return "is no program that can be found"
            case TimeoutError():
                return f"did not say within {STARTING:g} s what tools it has"
            case ConfigurationError():
                return str(error)
            case ValidationError():
                return f"lists its tools in the wrong form: {_line(error)}"
            case MCPError() if error.error.code != CONNECTION_CLOSED:
                return f"does not say what tools it has: {_line(error)}"
            case OSError() | ValueError():
                return f"cannot be started: {_line(error)}"
        self._errors.seek(0)
        error_lines = [line for line in self._errors.read().splitlines() if line.strip()]
        last = f' and wrote last "{error_lines[-1].strip()[:200]}"' if error_lines else ""
        return f"ended before it listed its tools{last}"

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
        parameters = StdioServerParameters(command=program, args=arguments, encoding_error_handler="replace")
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        async with stdio_client(parameters, errlog=self._errors) as streams, ClientSession(*streams) as session:
            async with asyncio.timeout(STARTING):
                await session.initialize()
                self.listed = await _all_tools(session)
            self._session = session
            ready.set_result(None)
            await self._ending.wait()


async def _all_tools(session: Any) -> list[Any]:
    """The tools of all pages of a server's list.

    Raises:
        ConfigurationError: for a list that does not end, and tools that an agent could not tell apart or call.
    """
    from mcp.types import PaginatedRequestParams

    tools: dict[str, Any] = {}
    cursor, cursors = None, set[str]()
    while True:
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        for tool in page.tools:
            if tools.setdefault(tool.name, tool) != tool:
                raise ConfigurationError(f"has two tools called {tool.name!r}; an agent could not tell them apart")
            if not tool.name.strip() or not tool.name.isprintable():
                raise ConfigurationError(f"has a tool called {tool.name!r}, which an agent cannot call; rename it")
        cursor = page.next_cursor
        if not cursor:
            return list(tools.values())
        if cursor in cursors or len(cursors) >= MOST or len(tools) > MOST:
            raise ConfigurationError(f"gives a list of tools that does not end (after {len(tools)} of them)")
        cursors.add(cursor)


def _of_an_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of arguments with the properties that chat templates read, which a server may leave out."""
    return dict(schema) if schema.get("properties") is not None else {**schema, "properties": {}}


def answer_of(name: str, result: Any) -> str:
    """The answer of a tool, a `CallToolResult`, as text; with its pictures, where there are any and it is no error."""
    text = in_words(name, result)
    pictures, rest = list[str](), list[Any]()
    for part in result.content:
        digest = None if part.type != "image" or result.is_error else _picture(name, part)
        if digest is None:
            rest.append(part)
        else:
            pictures.append(digest)
    if not pictures:
        return text
    words = in_words(name, SimpleNamespace(content=rest, structured_content=result.structured_content, is_error=False))
    return PicturedAnswer(text, "" if words == "(no output)" else words, pictures)


def _picture(name: str, part: Any) -> str | None:
    """The digest of a picture in an answer; None where it cannot be read."""
    try:
        data = base64.b64decode(part.data, validate=True)
        check_picture(data, f"a picture of {name}")
    except (ConfigurationError, ValueError):
        return None
    return MEDIA.put(data, f"a picture of {name}")


def in_words(name: str, result: Any) -> str:
    """The answer of a tool, a `CallToolResult`, as text.

    Texts as they are, embedded ones too, and links as `NAME: URI`. Structured content is as a rule what the texts say
    again; where they do not say all of it, it follows as JSON. What is no text is named; where there is nothing else,
    the answer is an error, as it is where the tool says so itself.
    """
    words, unread = list[str](), list[str]()
    for part in result.content:
        text = _text_of(part)
        (words if text is not None else unread).append(_named(part) if text is None else text)
    text = "\n".join(words)
    if not text.strip():
        words = []
    if result.structured_content is not None and not (words and _says(text, result.structured_content)):
        words.append(json.dumps(result.structured_content, ensure_ascii=False))
    notes = [f"[{kind}, which cannot be read here]" for kind in unread]
    if result.is_error:
        return f"error: {chr(10).join([*words, *notes]) or f'{name} failed and gave no reason'}"
    if not words and unread:
        return f"error: {name} answered with {' and '.join(unread)}, which cannot be read here"
    return "\n".join([*words, *notes]) or "(no output)"


def _says(text: str, value: Any) -> bool:
    """Whether every word and number of some JSON stands in a text."""
    if isinstance(value, (Mapping, list)):
        return all(_says(text, item) for item in (value.values() if isinstance(value, Mapping) else value))
    written = str(value), json.dumps(value).strip('"'), json.dumps(value, ensure_ascii=False).strip('"')
    return any(form in text for form in written)


def _text_of(part: Any) -> str | None:
    """What a part of an answer says; None where it is no text."""
    if part.type == "text":
        return str(part.text)
    if part.type == "resource":
        text = getattr(part.resource, "text", None)
        return None if text is None else str(text)
    if part.type == "resource_link":
        about = f" ({part.description})" if part.description else ""
        return f"{part.title or part.name}: {part.uri}{about}"
    return None


def _named(part: Any) -> str:
    """What a part is that is no text."""
    kind = {"image": "a picture", "audio": "a recording", "resource": "a file"}.get(part.type, f"a part {part.type!r}")
    place = f" {part.resource.uri}" if part.type == "resource" else ""
    sort = (part.resource if part.type == "resource" else part).mime_type
    return f"{kind}{place}" + (f" ({sort})" if sort else "")


def _line(error: BaseException) -> str:
    """An error in one line; of a message that is not the protocol's, the first thing that is wrong in it."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:200]
    return " ".join(str(error).split())[:200] or type(error).__name__


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
    server = Server(command)
    atexit.register(server.close)
    return server
