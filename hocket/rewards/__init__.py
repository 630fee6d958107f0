"""Rewards: scores of trajectories, their combination into one reward, and reward shaping."""

from __future__ import annotations

from hocket.core.rooms import lazy

__getattr__, __dir__ = lazy(__name__)
