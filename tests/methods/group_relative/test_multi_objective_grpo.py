"""Sums of normalised scores by hand."""

from __future__ import annotations

import math

import pytest
from credit_cases import LAW
from hypothesis import given
from hypothesis import strategies as st
from rewards_cases import rewards_of, scored_batch

from hocket.lab.microscope import inspect
from hocket.methods.group_relative.multi_objective_grpo import NormalisedSum
from hocket.recipes import find


@LAW
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.5, None]), min_size=2, max_size=2), min_size=1, max_size=8))
def test_normalised_sum_by_hand(values):
    groups = [n % 2 for n in range(len(values))]
    batch = scored_batch([dict(zip("ab", row, strict=True)) for row in values], groups)
    found = rewards_of(NormalisedSum(weights={"b": 3.0}, epsilon=0.01)(batch, {"a": 1.0, "b": 1.0}))
    for number, row in enumerate(values):
        wanted = 0.0
        for column, weight in ((0, 1.0), (1, 3.0)):
            others = [v[column] for v, g in zip(values, groups, strict=True) if g == groups[number]]
            known = [v for v in others if v is not None]
            if row[column] is None or len(set(known)) < 2:
                continue
            middle = sum(known) / len(known)
            spread = math.sqrt(sum((v - middle) ** 2 for v in known) / (len(known) - 1))
            wanted += weight * (row[column] - middle) / (spread + 0.01)
        assert found[number] == pytest.approx(wanted, abs=1e-12)


def test_a_normalised_sum_needs_no_scaling_credit():
    batch = {"version": 1, "trajectories": [
        {"group": "g", "scores": {"a": a, "b": b}, "logp": [-1.0]} for a, b in ((0.0, 5.0), (1.0, 7.0), (2.0, 0.0))
    ]}  # fmt: skip
    seen = inspect(find("multi-objective-grpo-normalised").but({"combine.epsilon": 0.0}), batch)["advantages"]
    spread = math.sqrt(13)
    assert [row[0] for row in seen] == pytest.approx([-1 + 1 / spread, 3 / spread, 1 - 4 / spread])
