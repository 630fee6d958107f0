"""Margins over references that are paired in order."""

from __future__ import annotations

import pytest
from credit_cases import batch_of, make

from hocket.credit.group import GroupRelative
from hocket.methods.group_relative.aapo import ReferenceMargin


def test_margins_pair_samples_in_order_and_start_over():
    own = [make("s", reward, length=1) for reward in (1.0, 1.0, 0.1, 0.0)]
    references = [make("s", reward, length=1, source="baseline") for reward in (0.0, 1.0)]
    alone = make("t", 1.0, length=1)
    batch = batch_of([*own, *references, alone])
    found = ReferenceMargin(credit=GroupRelative(scale=None), low=-0.2, high=0.3)(batch).advantage.tolist()
    mean = 2.1 / 4
    expected = [1 - mean + 0.3, 1 - mean + 0.0, 0.1 - mean + 0.1, 0 - mean - 0.2, 0.0, 0.0, 0.0]
    assert found == pytest.approx(expected)
