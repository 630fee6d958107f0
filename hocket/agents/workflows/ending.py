"""Cancels tasks, also those that ignore cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any

GRACE = 5.0
"""Seconds that a cancelled task has to clean up."""


async def ended(tasks: Collection[asyncio.Task[Any]], grace: float = GRACE) -> bool:
    """Cancels tasks and waits until they are done; whether all of them ended by the cancellation.

    A task that continues is ended where it waits: its coroutine is closed, which catching CancelledError does not
    prevent.
    """
    going = [task for task in tasks if not task.done()]
    if not going:
        return True
    for task in going:
        task.cancel()
    _, stubborn = await asyncio.wait(going, timeout=grace)
    for task in stubborn:
        with suppress(RuntimeError):  # It catches even that.
            task.get_coro().close()
        task.cancel()
    if stubborn:
        await asyncio.wait(stubborn, timeout=grace)
    for task in going:
        if task.done() and not task.cancelled():
            task.exception()  # Somebody has looked, so that nothing is written about it.
    return not stubborn
