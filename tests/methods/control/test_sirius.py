"""Weights of decisions by who made them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hocket.methods.control.sirius.method import BEFORE, INTERVENTION, KindWeights, weights


@given(st.lists(st.integers(1, 4), min_size=1, max_size=60), st.floats(0, 1))
def test_shares_are_those_of_a_distribution(kinds: list[int], interventions: float) -> None:
    rows = torch.tensor(kinds)
    weight = weights(rows, interventions)
    assert (weight >= 0).all()
    assert (weight[rows == BEFORE] == 0).all()
    assert float(weight.mean()) <= 1 + 1e-9
    if {1, 2, 3} <= set(kinds):
        assert float(weight.mean()) == pytest.approx(1.0)
        shown = kinds.count(1) / len(kinds)
        share = float(weight[rows == INTERVENTION].sum()) / len(kinds)
        assert share == pytest.approx(min(interventions, 1 - shown))


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_one(share: float) -> None:
    with pytest.raises(ValueError, match="interventions must lie"):
        KindWeights(share)
