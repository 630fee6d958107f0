"""dynamic_coalition_mrta: the method, its arena with tasks, the networks that read maps of it, and the best cover."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
