"""What a method does around a step, beside its stages: see `hocket.stages.Hook`."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
