"""What a method does around a step, beside its stages: see `hocket.stages.Hook`."""

from __future__ import annotations

from hocket.hooks.horizon import TurnHorizon
from hocket.hooks.past_selves import PastSelves

__all__ = ["PastSelves", "TurnHorizon"]
