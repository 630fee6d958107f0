"""mamql: the method, and the grid with demonstrations that it alone uses."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
