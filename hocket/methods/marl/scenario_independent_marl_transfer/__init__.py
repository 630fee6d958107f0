"""scenario-independent-marl-transfer: the method, and the representation that it alone uses (influence)."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
