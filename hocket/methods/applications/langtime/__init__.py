"""langtime: the method, the series that it forecasts, and their task."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
