"""Where workflows wait, and when engines work for them.

An engine whose answers depend on what is sampled together runs a batch only when every live workflow waits, so that
batches are full and the same whatever completes first. One whose answers depend on nothing but the request is *steady*:
it goes on as long as anybody waits, a few tokens at a time. What is answered goes back at once, and the next calls join
those still under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field

QUIET_TURNS = 10
"""Turns of the event loop without news before a batch is run, so that gathered calls arrive together."""

GRACE = 0.02
"""Seconds that a steady engine with nothing under way waits for company."""


@dataclass(eq=False)
class LiveEpisode:
    """A live workflow.

    Calls that it has under way at the same time are answered together, in the order in which they were made: so what
    it asks next, and in which order, does not depend on which of them was done first.

    Attributes:
        waiting: how many of its calls wait. absent: it was waited for in vain, and has not called since.
        endings: what is done when it has ended.
    """

    waiting: int = 0
    absent: bool = False
    barrier: Barrier | None = None
    endings: list[Callable[[], None]] = field(default_factory=list)
    _begun: int = 0
    _under_way: set[int] = field(default_factory=set)
    _held: dict[int, Callable[[], object]] = field(default_factory=dict)

    def at_end(self, call: Callable[[], None]) -> None:
        """Has something done when the workflow has ended."""
        self.endings.append(call)

    def begin(self) -> int:
        """A call is under way; its place among all."""
        self._begun += 1
        self._under_way.add(self._begun)
        return self._begun

    def done(self, place: int, give: Callable[[], object]) -> bool:
        """A call has its answer, and `give()` hands it over when no call is under way any more; whether that is now."""
        if place in self._under_way:
            self._under_way.discard(place)
            self._held[place] = give
        return self._release()

    def leave(self, place: int) -> None:
        """Nobody waits for a call any more."""
        self._under_way.discard(place)
        self._held.pop(place, None)
        self._release()

    def _release(self) -> bool:
        if self._under_way:
            return False
        held, self._held = self._held, {}
        for place in sorted(held):
            held[place]()
        return bool(held)


_EPISODE: ContextVar[LiveEpisode | None] = ContextVar("hocket_episode", default=None)


@dataclass(eq=False)
class Barrier:
    """Counts live workflows and starts work when all of them wait.

    Engines that serve the same workflows share one barrier: a workflow that waits for any of them waits. When all wait,
    steady engines go on first, and the others run once those have nothing left to do.

    Attributes:
        patience: seconds of nothing new after which waiting calls are run although some workflow is busy elsewhere (a
            slow tool, a lock another workflow holds); it is waited for again once it calls. Steady engines do not wait.
    """

    patience: float = 60.0
    _episodes: set[LiveEpisode] = field(default_factory=set)
    _runners: list[Callable[[], bool]] = field(default_factory=list)
    _steady: list[Callable[[], bool]] = field(default_factory=list)
    _news: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _watch: asyncio.Task[None] | None = None

    @property
    def live(self) -> int:
        """Workflows inside `episode()` now."""
        return len(self._episodes)

    def serve(self, runner: Callable[[], bool], steady: Callable[[], bool] | None = None) -> None:
        """Adds an engine: `runner()` runs what is pending there and says whether there was anything.

        `steady()` goes on for a moment with what does not depend on company, and says whether there was anything.
        """
        self._runners.append(runner)
        if steady is not None:
            self._steady.append(steady)

    @asynccontextmanager
    async def episode(self) -> AsyncIterator[None]:
        """Marks a live workflow. Calls made inside, also by tasks it starts, are its own; episodes do not nest."""
        if _EPISODE.get() in self._episodes:
            yield
            return
        episode = LiveEpisode(barrier=self)
        self._episodes.add(episode)
        token = _EPISODE.set(episode)
        try:
            yield
        finally:
            _EPISODE.reset(token)
            self._episodes.discard(episode)
            for call in episode.endings:
                call()
            self._tell()

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Marks that the current workflow waits for an engine."""
        episode = _EPISODE.get()
        if episode is not None:
            episode.waiting += 1
            episode.absent = False
        self.nudge()
        try:
            yield
        finally:
            if episode is not None:
                episode.waiting -= 1

    def current(self) -> LiveEpisode | None:
        """The live workflow that this is called from."""
        episode = _EPISODE.get()
        return episode if episode in self._episodes else None

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
        """Lets the engines work; ends when none has anything pending."""
        moving = False
        while True:
            news = await self._settle()
            if all(episode.waiting or episode.absent for episode in self._episodes):
                moving = _any(self._steady)
                if not moving and not _any(self._runners):
                    return
            elif moving or not await self._heard(GRACE, news):
                moving = _any(self._steady)
                if not moving and not await self._heard(self.patience, news):
                    for episode in self._episodes:
                        episode.absent = not episode.waiting

    async def _settle(self) -> int:
        """Waits until no more calls come together; how much news there was till then."""
        quiet, news = 0, self._news
        while quiet < QUIET_TURNS:
            await asyncio.sleep(0)
            quiet, news = (quiet + 1, news) if news == self._news else (0, self._news)
        return news

    async def _heard(self, seconds: float, known: int) -> bool:
        """Waits for news beyond what is `known`; whether any came in time."""
        self._changed.clear()
        if self._news == known:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)
        return self._news != known


def _any(engines: Iterable[Callable[[], bool]]) -> bool:
    """Lets every engine work; whether one of them had anything to do."""
    worked = [engine() for engine in engines]
    return any(worked)


@contextmanager
def aside() -> Iterator[None]:
    """Marks that the current workflow waits for something another workflow holds, so that engines run meanwhile."""
    episode = _EPISODE.get()
    if episode is None or episode.barrier is None:
        yield
        return
    episode.waiting += 1
    episode.barrier.nudge()
    try:
        yield
    finally:
        episode.waiting -= 1
