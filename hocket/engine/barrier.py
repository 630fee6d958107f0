"""Where workflows wait, and when engines work for them.

An engine whose answers depend on the composition of the batch runs a batch only when every live workflow waits. Hence
batches are full, and they do not depend on the order of completion. An engine whose answers depend only on the request
is *steady*: it works as long as any workflow waits, a few tokens at a time. Answers are returned at once, and new calls
join those in progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field

QUIET_TURNS = 10
"""Turns of the event loop without a new call before a batch is run, so that gathered calls arrive together."""

GRACE = 0.02
"""Seconds that an idle steady engine waits for further calls."""


@dataclass(eq=False)
class LiveEpisode:
    """A live workflow.

    Its concurrent calls are answered together, in the order in which they were made. So its next calls, and their
    order, do not depend on which call was completed first.

    Attributes:
        waiting: the number of its waiting calls. absent: the barrier has lost patience with it, until its next call.
        endings: functions to call when it has ended.
    """

    waiting: int = 0
    absent: bool = False
    barrier: Barrier | None = None
    endings: list[Callable[[], None]] = field(default_factory=list)
    _begun: int = 0
    _under_way: set[int] = field(default_factory=set)
    _held: dict[int, Callable[[], object]] = field(default_factory=dict)

    def at_end(self, call: Callable[[], None]) -> None:
        """Registers a function to be called when the workflow has ended."""
        self.endings.append(call)

    def begin(self) -> int:
        """Registers a call; returns its position among all calls."""
        self._begun += 1
        self._under_way.add(self._begun)
        return self._begun

    def done(self, place: int, give: Callable[[], object]) -> bool:
        """Registers the answer of a call. `give()` returns it once all calls have answers; whether they have."""
        if place in self._under_way:
            self._under_way.discard(place)
            self._held[place] = give
        return self._release()

    def leave(self, place: int) -> None:
        """Removes a call that was cancelled."""
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

    Engines that serve the same workflows share one barrier, so a workflow that waits for any of them waits. When all
    wait, steady engines work first, and the others run when the steady ones are idle.

    Attributes:
        patience: seconds without a new call after which waiting calls are run although some workflow is busy elsewhere
            (a slow tool, a lock of another workflow). The barrier waits for that workflow again after its next call.
            Steady engines do not wait.
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
        """The number of workflows inside `episode()`."""
        return len(self._episodes)

    def serve(self, runner: Callable[[], bool], steady: Callable[[], bool] | None = None) -> None:
        """Adds an engine: `runner()` runs its pending requests and returns whether there were any.

        `steady()` works for a moment on requests that do not depend on the batch; returns whether there were any.
        """
        self._runners.append(runner)
        if steady is not None:
            self._steady.append(steady)

    @asynccontextmanager
    async def episode(self) -> AsyncIterator[None]:
        """Marks a live workflow. Calls inside, also by tasks that it starts, belong to it. Episodes do not nest."""
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
        """The live workflow of the caller."""
        episode = _EPISODE.get()
        return episode if episode in self._episodes else None

    def nudge(self) -> None:
        """Signals a change, so that the barrier checks again whether all workflows wait."""
        loop = asyncio.get_running_loop()
        if self._watch is None or self._watch.done() or self._watch.get_loop() is not loop:
            self._changed = asyncio.Event()
            self._watch = loop.create_task(self._look())
        self._tell()

    def _tell(self) -> None:
        self._news += 1
        self._changed.set()

    async def _look(self) -> None:
        """Runs the engines until none has pending requests."""
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
        """Waits until calls stop arriving; returns the number of changes so far."""
        quiet, news = 0, self._news
        while quiet < QUIET_TURNS:
            await asyncio.sleep(0)
            quiet, news = (quiet + 1, news) if news == self._news else (0, self._news)
        return news

    async def _heard(self, seconds: float, known: int) -> bool:
        """Waits for a change after number `known`; whether there was one in time."""
        self._changed.clear()
        if self._news == known:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)
        return self._news != known


def _any(engines: Iterable[Callable[[], bool]]) -> bool:
    """Runs every engine; whether any of them had work."""
    worked = [engine() for engine in engines]
    return any(worked)


@contextmanager
def aside() -> Iterator[None]:
    """Marks that the current workflow waits for another workflow, so that engines do not wait for it."""
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
