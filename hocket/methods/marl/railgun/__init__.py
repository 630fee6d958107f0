"""railgun: the method, the maps that are seen from above, the network that reads them and the planner it imitates."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
