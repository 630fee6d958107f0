"""mats-lp: the method, its search, and the play of a trained run with it."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
