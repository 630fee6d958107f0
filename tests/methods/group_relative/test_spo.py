"""Where a quadratic drift comes to rest."""

from __future__ import annotations

import math

import pytest
import torch
from objective_batches import batch_of, total_of, value_and_gradient

from hocket.methods.group_relative.spo import QuadraticDrift
from hocket.objectives.drift import DriftSurrogate


def double(number):
    return torch.tensor([number], dtype=torch.float64)


@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.7])
@pytest.mark.parametrize("advantage", [-2.0, 0.5])
def test_the_quadratic_is_drawn_to_epsilon(epsilon, advantage):
    batch = batch_of([[0]], behaviour=torch.zeros(1).double(), advantage=double(advantage))
    objective = DriftSurrogate(QuadraticDrift(epsilon))

    def slope(ratio):
        return float(value_and_gradient(total_of(objective, batch), double(ratio).log())[1])

    best = 1 + math.copysign(epsilon, advantage)
    assert slope(best) == pytest.approx(0.0, abs=1e-12)
    assert slope(best - 0.05) * slope(best + 0.05) < 0
