"""black-box-marl-attacks: the method, and what it alone uses (foraging, observation_attack, task)."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
