"""The adversary of group-robust preference optimisation: weights that sum to 1, groups that come and go."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.lab.claims.harness import batches, inspect_rows
from hocket.methods.preference.group_robust_po import GROUP_ROBUST_PO, GroupWeights

losses = st.dictionaries(st.sampled_from("abcd"), st.floats(0, 5), min_size=1)


@settings(max_examples=60, deadline=None)
@given(st.lists(losses, min_size=1, max_size=5), st.floats(0, 2))
def test_weights_sum_to_one_and_who_is_absent_keeps_its_share(steps: list[dict[str, float]], eta: float) -> None:
    credit, state = GroupWeights(eta=eta), GroupWeights().init()
    for step in steps:
        before, state = state, credit._raised(state, step)
        assert sum(state.values()) == pytest.approx(1.0)
        absent = [name for name in before if name not in step]
        if before and set(step) <= set(before):
            assert all(state[name] == pytest.approx(before[name]) for name in absent)
        worst, best = max(step, key=lambda name: step[name]), min(step, key=lambda name: step[name])
        if {worst, best} <= set(before):
            assert state[worst] / state[best] >= before[worst] / before[best] * (1 - 1e-9)


def test_a_pair_without_a_group_is_refused() -> None:
    (document,) = batches(1, "groups", graded=True)
    with pytest.raises(ConfigurationError, match="'group' of every pair"):
        inspect_rows(GROUP_ROBUST_PO, document["trajectories"])
    with pytest.raises(ValueError, match="eta"):
        GroupWeights(eta=-1.0)
