"""knowledge-injection-text-games: the method, and the text worlds of devices and commands that it alone uses."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
