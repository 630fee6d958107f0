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
    """Has a listener given every sentence of this process that is said meanwhile."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)
