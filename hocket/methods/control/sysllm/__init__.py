"""sysllm: the method, its worlds with captions, its tasks, and the command `hocket summarise`."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
