"""Who is asked how many times; the loop between sampling and scoring."""

from hocket.rollout.baseline import WithGreedyBaseline
from hocket.rollout.demonstrations import Demonstrations, Preferences
from hocket.rollout.dynamic import DynamicSampling
from hocket.rollout.independent import Independent

__all__ = ["Demonstrations", "DynamicSampling", "Independent", "Preferences", "WithGreedyBaseline"]
