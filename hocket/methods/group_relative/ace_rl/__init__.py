"""ace-rl: the method, and instructions whose demands programs can check."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
