"""Who is asked how many times; the loop between sampling and scoring."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
