"""The event loop of servers and outside agents: one for a process, in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from functools import cache


def network_loop() -> asyncio.AbstractEventLoop:
    """The loop, which runs until the process ends.

    It outlives every server, because an agent's client may: a client that is made once per module keeps connections
    between runs of one process, and they can be closed only in the loop in which they were opened.
    """
    return _started(os.getpid())  # A forked child has no threads but one, so it starts its own.


@cache
def _started(process: int) -> asyncio.AbstractEventLoop:
    del process
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="hocket-serve", daemon=True).start()
    return loop
