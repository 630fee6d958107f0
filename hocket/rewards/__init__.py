"""How good a trajectory is, how several scores become one reward, and edits of it."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
