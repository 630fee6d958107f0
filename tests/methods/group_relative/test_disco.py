"""Discrimination by hand, and colder."""

from __future__ import annotations

import pytest
import torch
from objective_batches import doubles

from hocket.methods.group_relative.disco import discrimination


def test_a_colder_soft_max_looks_at_the_hardest_wrong_answer():
    score, right = doubles(0.0, 1.0, 2.0), torch.tensor([True, False, False])
    group = torch.zeros(3, dtype=torch.long)
    cold = discrimination(score, right, ~right, group, 1, 0.01)
    assert float(cold) == pytest.approx(2.0, abs=0.01)
