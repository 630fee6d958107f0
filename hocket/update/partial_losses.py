"""Losses of a part of a problem: of the policy without its values, or of the values alone."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from hocket.core.batch import Batch
from hocket.types import Evaluation, LossFunction, Terms
from hocket.update.problem import Problem


def without_value(problem: Problem) -> LossFunction:
    """The problem's terms with constant values: the loss of the policy."""

    def terms(now: Evaluation, batch: Batch) -> list[Terms]:
        return problem.loss_terms(replace(now, value=_constant(now.value)), batch)

    return terms


def _constant(quantity: Tensor | None) -> Tensor | None:
    return None if quantity is None else quantity.detach()
