"""eph-mapf: the method, the world of neighbours, the network of messages, and what is added in play."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
