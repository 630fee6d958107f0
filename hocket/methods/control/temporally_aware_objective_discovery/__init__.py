"""temporally-aware-objective-discovery: the method, and what it alone uses (lifetimes, timed_drift)."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
