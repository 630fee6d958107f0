"""Where workflows wait: a batch runs only when every live workflow waits, so batches are full, in any order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

QUIET_TURNS = 10
"""Turns of the event loop without news before a batch is run, so that gathered calls arrive together."""


@dataclass(eq=False)
class Episode:
    """A live workflow and how many of its calls wait."""

    waiting: int = 0


_EPISODE: ContextVar[Episode | None] = ContextVar("hocket_episode", default=None)


@dataclass(eq=False)
class Lobby:
    """Counts live workflows and starts work when all of them wait.

    Engines that serve the same workflows share one lobby: a workflow that waits for any of them waits.

    Attributes:
        patience: seconds of nothing new after which waiting calls are run although some workflow is busy elsewhere (a
            slow tool, a lock another workflow holds).
    """

    patience: float = 60.0
    _episodes: set[Episode] = field(default_factory=set)
    _runners: list[Callable[[], bool]] = field(default_factory=list)
    _news: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _watch: asyncio.Task[None] | None = None

    @property
    def live(self) -> int:
        """Workflows inside `episode()` now."""
        return len(self._episodes)

    def serve(self, runner: Callable[[], bool]) -> None:
        """Adds an engine: `runner()` runs what is pending there and says whether there was anything."""
        self._runners.append(runner)

    @asynccontextmanager
    async def episode(self) -> AsyncIterator[None]:
        """Marks a live workflow. Calls made inside, also by tasks it starts, are its own; episodes do not nest."""
        if _EPISODE.get() in self._episodes:
            yield
            return
        episode = Episode()
        self._episodes.add(episode)
        token = _EPISODE.set(episode)
        try:
            yield
        finally:
            _EPISODE.reset(token)
            self._episodes.discard(episode)
            self._tell()

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Marks that the current workflow waits for an engine."""
        episode = _EPISODE.get()
        if episode is not None:
            episode.waiting += 1
        self.nudge()
        try:
            yield
        finally:
            if episode is not None:
                episode.waiting -= 1

    def nudge(self) -> None:
        """Tells that something changed; looks again whether all wait."""
        loop = asyncio.get_running_loop()
        if self._watch is None or self._watch.done() or self._watch.get_loop() is not loop:
            self._changed = asyncio.Event()
            self._watch = loop.create_task(self._look())
        self._tell()

    def _tell(self) -> None:
        self._news += 1
        self._changed.set()

    async def _look(self) -> None:
        """Runs the engines each time all live workflows wait; ends when none has anything pending."""
        while True:
            await self._settle()
            if not all(episode.waiting for episode in self._episodes) and not await self._wait():
                continue
            if not [runner for runner in self._runners if runner()]:
                return

    async def _settle(self) -> None:
        quiet, news = 0, self._news
        while quiet < QUIET_TURNS:
            await asyncio.sleep(0)
            quiet, news = (quiet + 1, news) if news == self._news else (0, self._news)

    async def _wait(self) -> bool:
        """Waits for news; True when none came within the patience."""
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), self.patience)
        except TimeoutError:
            return True
        return False
