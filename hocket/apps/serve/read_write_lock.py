"""Many may read, or one write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ReadWriteLock:
    """Many read at once, until one wants to write: that one goes next, when those that read are done."""

    def __init__(self) -> None:
        self._readers = 0
        self._writing = False
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Beside other readers."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._writing)
            self._readers += 1
        try:
            yield
        finally:
            async with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """With no reader and no other writer."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._writing)
            self._writing = True
            try:
                await self._changed.wait_for(lambda: not self._readers)
            except BaseException:
                self._writing = False
                self._changed.notify_all()
                raise
        try:
            yield
        finally:
            async with self._changed:
                self._writing = False
                self._changed.notify_all()
