"""Sentences for who watches, from places that do not know who that is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LISTENERS: list[Callable[[str], None]] = []


def say(sentence: str) -> None:
    """Tells who listens, the last one that began to; a warning where there is nobody. Safe between threads."""
    listener = next(reversed(_LISTENERS), None)
    if listener is None:
        warnings.warn(sentence, RuntimeWarning, stacklevel=2)
    else:
        listener(sentence)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Passes every notice of this process to `listener` until the block is left."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)
