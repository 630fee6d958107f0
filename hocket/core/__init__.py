"""What every room stands on: keys, components, packing, segments, signals, schedules, casts, errors, discovery."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
