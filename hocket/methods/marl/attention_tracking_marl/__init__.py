"""attention-tracking-marl: the method, the world of targets, the network over them and the soft values."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
