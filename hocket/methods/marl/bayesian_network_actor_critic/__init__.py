"""bayesian-network-actor-critic: the method, and what it alone uses (message_graph)."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
