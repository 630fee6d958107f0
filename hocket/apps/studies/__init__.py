"""Studies: recipes compared on the same tasks, base, budget and seeds, with honest intervals."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
