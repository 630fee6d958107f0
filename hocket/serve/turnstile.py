"""Many may be inside, or one alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turnstile:
    """Lets many in at once, until one wants to be alone: that one goes next, when those inside have left."""

    def __init__(self) -> None:
        self._inside = 0
        self._alone = False
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def inside(self) -> AsyncIterator[None]:
        """Among others."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone)
            self._inside += 1
        try:
            yield
        finally:
            async with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """With nobody else inside."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone)
            self._alone = True
            try:
                await self._changed.wait_for(lambda: not self._inside)
            except BaseException:
                self._alone = False
                self._changed.notify_all()
                raise
        try:
            yield
        finally:
            async with self._changed:
                self._alone = False
                self._changed.notify_all()
