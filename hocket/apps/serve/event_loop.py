"""Work for an event loop that runs in another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


async def across(
    loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, T]], context: Context | None = None
) -> T:
    """Runs `work()` in `loop`, as a task of its own in `context`, and waits for it here.

    Cancelling the waiter cancels the work.

    Raises:
        RuntimeError: when the loop is closed.
    """

    async def inside() -> T:
        return await loop.create_task(work(), context=context)

    begun = inside()
    try:
        future = asyncio.run_coroutine_threadsafe(begun, loop)
    except RuntimeError:
        begun.close()
        raise
    return await asyncio.wrap_future(future)
