"""Running async code from anywhere, notebooks included."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end. Inside a running event loop (a notebook) it runs in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    outcome: list[T] = []
    failure: list[BaseException] = []

    def runner() -> None:
        try:
            outcome.append(asyncio.run(work))
        except BaseException as error:  # Handed to the caller's thread.
            failure.append(error)

    thread = threading.Thread(target=runner, name="hocket")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
