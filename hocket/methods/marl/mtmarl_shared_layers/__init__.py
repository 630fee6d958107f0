"""mtmarl-shared-layers: the method, the tasks that are trained at once (mixture), and its layers."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
