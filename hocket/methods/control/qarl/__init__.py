"""QARL: robust control against an adversary that becomes rational by and by."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
