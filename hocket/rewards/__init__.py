"""How good a trajectory is, how several scores become one reward, and edits of it."""

from hocket.rewards.combine import WeightedSum

__all__ = ["WeightedSum"]
