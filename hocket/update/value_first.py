"""The value function is fitted before the policy, in every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from hocket.keys import Key
from hocket.stages import Metrics
from hocket.types import Batch, Evaluation, Terms
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem, without_value


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
        fitting = replace(problem, loss_terms=_values_alone(problem))
        for number in range(self.fits):
            fitted = super().step(fitting, key.derive("value", number))
        acting = replace(problem, loss_terms=without_value(problem))
        found = super().step(acting, key)
        problem.first = fitting.first
        return {**found, "value/loss": fitted["loss"]}


def _values_alone(problem: Problem) -> Callable[[Evaluation, Batch], list[Terms]]:
    """The problem's terms with everything but values constant."""

    def terms(now: Evaluation, batch: Batch) -> list[Terms]:
        still = Evaluation(now.logp.detach(), _still(now.entropy), now.value, _still(now.kl_exact))
        return problem.loss_terms(still, batch)

    return terms


def _still(found: Tensor | None) -> Tensor | None:
    return None if found is None else found.detach()
