"""How a step is made from gradients."""

from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem

__all__ = ["GradientStep", "Problem"]
