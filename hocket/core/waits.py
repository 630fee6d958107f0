"""What is waited for: whoever waits for something beside this process's own work names it, and long waits are shown.

A wait is shown once it has lasted `PATIENCE` seconds, and again whenever it has lasted twice as long, by a thread of
its own: what waits may hold up everything else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 30.0
"""Seconds after which a wait is shown."""


class Wait:
    """One wait, from now until it is `over`. `what`: what is awaited, in words; equal ones are shown as one."""

    def __init__(self, what: str) -> None:
        self.what, self.since = what, time.monotonic()
        with _NEWS:
            _OPEN.add(self)
            _NEWS.notify_all()

    def over(self) -> None:
        """Ends it; again changes nothing."""
        with _NEWS:
            _OPEN.discard(self)


_NEWS = threading.Condition()
_OPEN: set[Wait] = set()


@contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Marks that what is inside waits for `what`. For any thread and task."""
    wait = Wait(what)
    try:
        yield
    finally:
        wait.over()


def long_waits() -> dict[str, tuple[float, int]]:
    """What has been waited for longer than `PATIENCE`: for how many seconds at most, and by how many."""
    current, waits = time.monotonic(), dict[str, tuple[float, int]]()
    with _NEWS:
        still = sorted(_OPEN, key=lambda wait: wait.since)
    for wait in still:
        if current - wait.since >= PATIENCE:
            longest, count = waits.get(wait.what, (current - wait.since, 0))
            waits[wait.what] = longest, count + 1
    return waits


def in_words(what: str, seconds: float, count: int) -> str:
    """A long wait as a phrase."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{what} for {minutes}:{rest:02d}" + (f" ({count} times)" if count > 1 else "")


@contextmanager
def watched(show: Callable[[str], None]) -> Iterator[None]:
    """Shows long waits meanwhile, each as a sentence, from another thread."""
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(show, ended), name="hocket-waits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        with _NEWS:
            _NEWS.notify_all()
        thread.join()


def _watch(show: Callable[[str], None], ended: threading.Event) -> None:
    due_times: dict[str, float] = {}
    while not ended.is_set():
        with _NEWS:
            if not _OPEN and not ended.is_set():
                _NEWS.wait()
        waits = long_waits()
        due_times = {what: due for what, due in due_times.items() if what in waits}
        for what, (seconds, count) in waits.items():
            if seconds >= due_times.get(what, 0.0):
                due_times[what] = 2 * seconds
                show(f"waiting for {in_words(what, seconds, count)}")
        ended.wait(min(1.0, PATIENCE / 4))
