"""rrvf: the method, its language of drawings (drawing) and its world (task)."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
