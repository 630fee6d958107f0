"""Running async code from anywhere, notebooks included."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from hocket.agents.workflows.ending import ended

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end. Inside a running event loop (a notebook) it runs in a thread of its own.

    On Ctrl-C `work` is cancelled and ends before `KeyboardInterrupt` is raised.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def kept() -> None:
        # What a task returns is written out as text when asyncio.run gives signals back: milliseconds for a batch.
        task = asyncio.current_task()
        assert task is not None
        running.append((asyncio.get_running_loop(), task))
        try:
            outcome.append(await work)
        finally:
            # A task that was left behind and catches its cancellation would hold up asyncio.run for ever.
            await ended(asyncio.all_tasks() - {task})

    def runner() -> None:
        try:
            asyncio.run(kept())
        except BaseException as error:  # Handed to the caller's thread.
            failure.append(error)
        finally:
            over.set()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(kept())
        return outcome[0]
    # An interrupted `join` takes the thread for ended, so an event is waited for.
    over = threading.Event()
    # With the caller's context, so that a notebook shows what is printed under the right cell.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(runner,), name="hocket")
    try:
        thread.start()
        over.wait()
    except KeyboardInterrupt:
        for loop, task in running:
            with suppress(RuntimeError):  # It is over already.
                loop.call_soon_threadsafe(task.cancel)
        over.wait()
        raise
    if failure:
        raise failure[0]
    return outcome[0]
