"""The value function is fitted before the policy, in every step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hocket.keys import Key
from hocket.stages import Metrics
from hocket.update.gradient import GradientStep
from hocket.update.partial_losses import values_alone, without_value
from hocket.update.problem import Problem


@dataclass(frozen=True)
class ValueFirstStep(GradientStep):
    """`fits` updates in which only values move the loss, then one in which they are constants.

    Each is `epochs` passes in `minibatches` parts. OREO (arXiv 2412.16145) fits V first, so that the policy is measured
    against values that know the batch already. Where a value head shares weights with the policy, the fit moves these.
    """

    fits: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fits < 1:
            raise ValueError(f"fits must be at least 1, not {self.fits}")

    def step(self, problem: Problem, key: Key) -> Metrics:
        fitting = replace(problem, loss_terms=values_alone(problem))
        for number in range(self.fits):
            fitted = super().step(fitting, key.derive("value", number))
        acting = replace(problem, loss_terms=without_value(problem))
        found = super().step(acting, key)
        problem.first = fitting.first
        return {**found, "value/loss": fitted["loss"]}
