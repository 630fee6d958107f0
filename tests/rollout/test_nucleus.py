"""The smallest sets of tokens with a mass."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.keys import Key
from hocket.rollout.nucleus import nucleus


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 9), mass=st.floats(0.01, 1.0))
def test_a_nucleus_is_the_smallest_set_with_its_mass(seed, size, mass):
    logp = torch.log_softmax(torch.from_numpy(Key.of(seed).numpy().normal(size=(3, size))), -1)
    chance = logp.exp()
    for row, kept in zip(chance, nucleus(logp, mass), strict=True):
        inside = float(row[kept].sum())
        assert inside >= mass - 1e-9 or bool(kept.all())
        assert bool(kept.any())
        if mass < 1 and int(kept.sum()) > 1:
            assert inside - float(row[kept].min()) < mass + 1e-9
        if not bool(kept.all()):
            assert float(row[kept].min()) >= float(row[~kept].max())
