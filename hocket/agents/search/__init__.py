"""Better answers from the same weights: search over the messages of agents, guided by a value.

A search plays through `Play`, message by message (see `hocket.types.Replay`), and counts the sampled messages.
"""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
