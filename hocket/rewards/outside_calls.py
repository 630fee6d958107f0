"""Calls of user code, which may raise, block or never return without stopping the run."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

_PROBE_SECONDS = 1.0


class CallOutcome(NamedTuple):
    """The outcome of a call: a value, an error, or a timeout."""

    value: Any = None
    error: BaseException | None = None
    timed_out: bool = False


async def call_outside(function: Callable[..., Any], arguments: Mapping[str, Any], timeout: float) -> CallOutcome:
    """Calls a sync or async function by keyword and waits at most `timeout` seconds.

    A sync function runs in a new daemon thread, an async one on an event loop in a daemon thread, so neither can block
    the run; a thread that hangs is abandoned. Positional-only parameters are filled by name.
    """
    place, named = _bound(function, arguments)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return await _in_background(lambda: function(*place, **named), timeout)
    return await _in_thread(lambda: function(*place, **named), timeout)


def _bound(function: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, split into positional and keyword arguments."""
    named = dict(arguments)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [], named
    only = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_ONLY]
    return [named.pop(name) for name in only if name in named], named


# ---------------------------------------------------------------- sync


async def _in_thread(work: Callable[[], Any], timeout: float) -> CallOutcome:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[CallOutcome] = loop.create_future()

    def settle(outcome: CallOutcome) -> None:
        if not future.done():
            future.set_result(outcome)

    def body() -> None:
        outcome = _ended(work)
        with contextlib.suppress(RuntimeError):  # The loop is closed, so nothing waits for the outcome.
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=body, name="hocket-outside", daemon=True).start()
    return await _in_time(future, timeout)


def _ended(work: Callable[[], Any]) -> CallOutcome:
    """Runs `work` and catches every exception, also that of `sys.exit()`, so that the thread always reports."""
    try:
        value = work()
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
    except BaseException as error:
        return CallOutcome(error=error)
    return CallOutcome(value)


async def _in_time(future: asyncio.Future[CallOutcome], timeout: float) -> CallOutcome:
    try:
        return await asyncio.wait_for(future, timeout)
    except TimeoutError:
        return CallOutcome(timed_out=True)


# ---------------------------------------------------------------- async


@functools.cache
def _background() -> asyncio.AbstractEventLoop:
    """An event loop that runs for ever in a daemon thread, so that objects cached by async functions stay valid."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="hocket-outside-async", daemon=True).start()
    return loop


async def _in_background(make: Callable[[], Coroutine[Any, Any, Any]], timeout: float) -> CallOutcome:
    async def guarded() -> CallOutcome:
        try:
            return CallOutcome(await make())
        except BaseException as error:
            return CallOutcome(error=error)

    loop = _background()
    outcome = await _in_time(asyncio.wrap_future(asyncio.run_coroutine_threadsafe(guarded(), loop)), timeout)
    if outcome.timed_out:
        await _replace_if_blocked(loop)
    return outcome


async def _replace_if_blocked(loop: asyncio.AbstractEventLoop) -> None:
    """Replaces the loop for later calls if an async function blocks it."""
    probe = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop))
    try:
        await asyncio.wait_for(probe, _PROBE_SECONDS)
    except TimeoutError:
        _background.cache_clear()
