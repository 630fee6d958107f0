"""Running async code from anywhere, notebooks included."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from hocket.agents.workflows.ending import ended

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end. Inside a running event loop (a notebook) it uses a separate thread."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    async def kept() -> None:
        # What a task returns is written out as text when asyncio.run gives signals back: milliseconds for a batch.
        try:
            outcome.append(await work)
        finally:
            # A task that was left behind and catches its cancellation would hold up asyncio.run for ever.
            await ended(asyncio.all_tasks() - {asyncio.current_task()})

    def runner() -> None:
        try:
            asyncio.run(kept())
        except BaseException as error:  # Handed to the caller's thread.
            failure.append(error)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(kept())
        return outcome[0]
    thread = threading.Thread(target=runner, name="hocket")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
