"""No search finds a counter-example to a theorem, and the claims said to fail do fail."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.lab.theorems import THEOREMS


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.statement)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_holds(theorem, seed):
    assert theorem.violation(Key.of(seed)) <= theorem.tolerance


@pytest.mark.parametrize("theorem", [one for one in THEOREMS if one.counter], ids=lambda theorem: theorem.claim)
def test_the_published_claim_fails(theorem):
    assert theorem.counter() > 1e-3
    assert theorem.claim


def test_there_are_enough():
    assert len(THEOREMS) >= 30
    assert len({theorem.statement for theorem in THEOREMS}) == len(THEOREMS)
    assert all(theorem.source for theorem in THEOREMS)
