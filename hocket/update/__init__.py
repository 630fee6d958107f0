"""How a step is made from gradients."""

from hocket.update.gradient import GradientStep
from hocket.update.masked import DelayedMaskStep
from hocket.update.problem import Problem
from hocket.update.slow_fast import SlowFastStep
from hocket.update.trust_region import TrustRegionStep
from hocket.update.value_first import ValueFirstStep

__all__ = [
    "DelayedMaskStep",
    "GradientStep",
    "Problem",
    "SlowFastStep",
    "TrustRegionStep",
    "ValueFirstStep",
]
