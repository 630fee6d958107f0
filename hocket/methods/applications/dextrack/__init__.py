"""dextrack: the method, and what it alone uses (homotopy, world)."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
