"""affordance_r1: the method, what its answers say (parts) and its world (task)."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
