"""Rendering of chat templates, which are foreign code, with limits of time and memory."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, TemplateError

from hocket.core.errors import ConfigurationError

T = TypeVar("T")

SECONDS = 2.0
"""Seconds of processor time of one rendering; a long conversation takes thousandths."""

MEMORY = 2**30
"""Bytes by which the process may grow during a rendering."""

_DIGITS = 7
"""The largest integer in a template."""

_LOOK = 0.05
"""Seconds between two checks of a rendering in progress."""


class Endless(ConfigurationError):
    """A template that does not end, or needs too much memory."""


class _Stop(BaseException):
    """The end of a rendering. The watching thread raises it inside; templates cannot catch exceptions."""


def within_bounds(tokenizer: Any, render: Callable[[], T]) -> T:
    """The output of `render` for a tokenizer's chat template, within limits of time and memory.

    Raises:
        Endless: when it exceeds a limit.
    """
    template = tokenizer.chat_template
    try:
        for text in [template] if isinstance(template, str) else map(str, dict(template).values()):
            if (reason := _unstoppable(text)) is not None:
                raise _Stop(reason)
        return _WATCH.watched(render)
    except _Stop as stop:
        name = getattr(tokenizer, "name_or_path", None) or type(tokenizer).__name__
        raise Endless(
            f"the chat template of {name!r} is refused: {stop}; choose another model, or a template by --chat_template"
        ) from None


@functools.lru_cache(32)
def _unstoppable(template: str) -> str | None:
    """What of a template may take for ever in a single step, which nothing can stop; None for nothing."""
    try:
        lexed = [(kind, value) for _, kind, value in Environment().lex(template) if kind not in ("whitespace", "data")]
    except TemplateError:
        return None  # Whoever renders it says what is wrong.
    for place, (kind, value) in enumerate(lexed):
        if kind == "integer" and len(value) > _DIGITS:
            return f"it holds the number {value[:20]}"
        beside = {lexed[max(place - 1, 0)][0], lexed[min(place + 1, len(lexed) - 1)][0]}
        if (kind, value) == ("operator", "**") or (
            (kind, value) == ("operator", "*") and beside != {"string", "integer"}
        ):
            return f"it multiplies ({value}), which may take for ever"
    return None


class _Watch:
    """One thread that looks at all renderings that go on; it waits while there are none."""

    def __init__(self) -> None:
        # A plain lock: entering it is one step, between whose parts no exception can arrive from outside.
        self._lock, self._some = threading.Lock(), threading.Event()
        self._going: dict[int, _Rendering] = {}
        self._process = 0

    def watched(self, render: Callable[[], T]) -> T:
        """`render()`, which is stopped when it takes too long.

        Raises:
            _Stop: when it was.
        """
        thread = threading.get_ident()
        clock = time.pthread_getcpuclockid(thread)
        rendering = _Rendering(clock, time.clock_gettime(clock))
        self._begin()
        with self._lock:
            self._going[thread] = rendering
        self._some.set()
        try:
            try:
                return render()
            finally:
                self._ended(thread)
                if rendering.stopped is not None:
                    raise _Stop(rendering.stopped)
        except _Stop:
            self._ended(thread)
            raise _Stop(rendering.stopped) from None

    def _ended(self, thread: int) -> None:
        with self._lock:
            rendering = self._going.pop(thread, None)
        if rendering is not None and rendering.stopped is not None:
            # What has not arrived yet must not arrive later. It is made to arrive: one that is withdrawn leaves Python
            # looking for it at every step from then on, which slows all code down and hangs profilers.
            with contextlib.suppress(_Stop):
                _raise_in(thread, _Stop)
                for _ in range(100):
                    pass

    def _begin(self) -> None:
        if self._process != os.getpid():  # In a forked process no other thread lives on.
            self._process, self._lock, self._going = os.getpid(), threading.Lock(), {}
            threading.Thread(target=self._look, name="hocket-templates", daemon=True).start()

    def _look(self) -> None:
        while self._some.wait():
            time.sleep(_LOOK)
            memory = _memory()
            with self._lock:
                for thread, rendering in self._going.items():
                    rendering.memory = min(memory, rendering.memory)
                    if rendering.stopped is None and (reason := rendering.excess(memory)) is not None:
                        rendering.stopped = reason
                        _raise_in(thread, _Stop)
                if not self._going:
                    self._some.clear()


@dataclass
class _Rendering:
    """A rendering that goes on: its thread's clock of computing, when it began by that, and the least memory seen."""

    clock: int
    begun: float
    memory: float = math.inf
    stopped: str | None = None

    def excess(self, memory: int) -> str | None:
        """The exceeded limit, as a clause of a message; None if there is none."""
        if time.clock_gettime(self.clock) - self.begun > SECONDS:
            return f"it goes on for more than {SECONDS:g} s"
        return f"it takes more than {MEMORY / 2**30:g} GiB" if memory - self.memory > MEMORY else None


_WATCH = _Watch()


def _raise_in(thread: int, what: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(what))


def _memory() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
